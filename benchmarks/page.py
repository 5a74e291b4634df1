"""How large the HTML page is, how long it takes to make and to open.

    python -m benchmarks.page                  # all cases; opening them needs chromium and chromedriver
    python -m benchmarks.page --batches 1 4

Sizes do not depend on the machine; the times do. Writes ``results/page.csv`` and ``results/page.md``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.page_cases import EXPERTS, LAYERS, STEPS, large_view
from prescope.bench.versions import this_machine
from prescope.inspection import View
from prescope.page import write_document
from prescope.page.from_view import page_document

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))
BATCHES = (1, 4, 16, 64)
JITTER = 0.05
FIELDS = ("batch", "schedules", "tasks", "steps", "steps_in_full", "bytes", "think_s", "write_s", "open_ms",
          "step_ms", "redraw_ms")  # fmt: skip

# From the next step's button to the new step drawn; then the mean redraw of a key that zooms.
_STEP_MS = """
const done = arguments[0];
const label = document.getElementById('step-label');
const start = performance.now();
new MutationObserver((_, watch) => {
  watch.disconnect();
  requestAnimationFrame(() => done(performance.now() - start));
}).observe(label, { childList: true, characterData: true, subtree: true });
document.querySelector('[aria-label="Next step"]').click();
"""
_REDRAW_MS = """
const canvas = document.getElementById('timeline');
const start = performance.now();
for (const key of '0+0+0+0+0+0+0+0+0+0+') canvas.dispatchEvent(new KeyboardEvent('keydown', { key }));
return (performance.now() - start) / 20;
"""


def main() -> int:
    """Make every page and write both files."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    options.add_argument("--output", type=Path, default=HERE / "results")
    chosen = options.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for batch in chosen.batches:
            for jitter in (0.0, JITTER):
                view = large_view(batch, jitter=jitter)
                lines.append(measure(view, batch, Path(folder) / f"{batch}-{jitter}.html"))
                print(lines[-1], file=sys.stderr)
    write(chosen.output, lines)
    return 0


def measure(view: View, batch: int, path: Path) -> dict[str, Any]:
    """One page: its size, and what it takes."""
    start = time.perf_counter()
    document = page_document(view)
    thought = time.perf_counter()
    size = write_document(document, path)
    written = time.perf_counter()
    text = path.read_text(encoding="utf-8")
    return {
        "batch": batch,
        "schedules": len(view.steps[0].schedules),
        "tasks": sum(len(one.tasks) for step in view.steps for one in step.schedules.values()),
        "steps": len(view.steps),
        "steps_in_full": text.count('"tasks":"'),
        "bytes": size,
        "think_s": round(thought - start, 2),
        "write_s": round(written - thought, 2),
        **opened(path),
    }


def opened(path: Path) -> dict[str, float | None]:
    """How long the page takes to open, to show another step and to redraw; ``None`` without a browser."""
    from browser import browser, load, why_not

    if why_not() is not None:
        return {"open_ms": None, "step_ms": None, "redraw_ms": None}
    with browser() as driver:
        load(driver, path)
        load(driver, path)  # the first start of a browser is not the page's
        ready_ms = driver.execute_script("return Number(document.documentElement.dataset.readyMs)")
        redraw_ms = driver.execute_script(_REDRAW_MS)
        step_ms = driver.execute_async_script(_STEP_MS)
        return {
            "open_ms": round(ready_ms),
            "step_ms": round(step_ms, 1),
            "redraw_ms": round(redraw_ms, 2),
        }


def write(folder: Path, lines: list[dict[str, Any]]) -> None:
    """The table as CSV and Markdown."""
    with open(folder / "page.csv", "w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, FIELDS)
        table.writeheader()
        table.writerows(lines)
    text = [
        "# The HTML page of a Qwen3-30B-A3B-sized run",
        "",
        f"Made by `python -m benchmarks.page`: {LAYERS} layers, {EXPERTS} experts, {STEPS} decode steps, "
        "synthetic routing and predictions, planned steps;",
        f"with two schedules the second has every duration changed at random by up to {JITTER:.0%}, as real "
        "clocks do.",
        "Think: the sums against the lower bound and the critical paths. Open: from the start of the",
        f"navigation until everything is drawn, in headless Chromium. Times on {this_machine().machine}.",
        "",
        "| batch | schedules | tasks | steps in full | size | think | write | open | next step | redraw |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for line in lines:
        shown = {name: "-" if value is None else value for name, value in line.items()}
        text.append(
            f"| {line['batch']} | {line['schedules']} | {line['tasks']:,} "
            f"| {line['steps_in_full']} of {line['steps']} | {line['bytes'] / 1e6:.2f} MB "
            f"| {line['think_s']} s | {line['write_s']} s | {shown['open_ms']} ms | {shown['step_ms']} ms "
            f"| {shown['redraw_ms']} ms |"
        )
    (folder / "page.md").write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
