"""Puts the table that ``make run`` printed into the README.

``make run > run.txt; python benchmarks/readme.py run.txt``
"""

from __future__ import annotations

import sys
from pathlib import Path

BEGIN, END = "<!-- make run: begin -->\n", "<!-- make run: end -->\n"
README = Path(__file__).resolve().parent.parent / "README.md"


def main() -> None:
    """Replace what stands between the two marks."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    begin = next((number for number, line in enumerate(lines) if " model, batch " in line), None)
    if begin is None:
        raise SystemExit(f"expected what `make run` prints in {sys.argv[1]}, got no table")
    table = "\n".join(line.rstrip() for line in lines[begin:]).strip()
    text = README.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    README.write_text(f"{head}{BEGIN}\n```text\n{table}\n```\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
