"""Type-check the package under its import names and prove that every file was checked.

The rooms lie at the root but import as `prescope.<room>`; run from the root, mypy finds one file and calls
that a success. So a tree of links, build/types/prescope/, gives every file its import name, and the number of
files mypy reports must equal the number of files in the package.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = Path("build") / "types"
CHECKED = re.compile(r"(?:no issues found in|checked) (\d+) source files?")


def package_folders(root: Path) -> dict[str, str]:
    """Return import name -> folder, as [tool.setuptools.package-dir] maps them."""
    config = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    folders: dict[str, str] = config["tool"]["setuptools"]["package-dir"]
    return folders


def package_files(root: Path, folders: dict[str, str]) -> dict[str, str]:
    """Return place in the import tree -> place in the repository, of every Python file of the package."""
    files: dict[str, str] = {}
    for name, folder in folders.items():
        for path in sorted((root / folder).rglob("*.py")):
            files[f"{name.replace('.', '/')}/{path.relative_to(root / folder)}"] = str(path.relative_to(root))
    return files


def folders_without_init(files: dict[str, str]) -> list[str]:
    """Return the folders that hold code but are no packages: they would not be installed."""
    sources = set(files.values())
    holding = {str(Path(source).parent) for source in sources}
    return sorted(folder for folder in holding if f"{folder}/__init__.py" not in sources)


def build_tree(files: dict[str, str], root: Path, tree: Path) -> None:
    """Make `tree` anew with one relative link per file, so that a moved checkout keeps working."""
    shutil.rmtree(tree, ignore_errors=True)
    for place, source in files.items():
        at = tree / place
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(os.path.relpath(root / source, at.parent))


def checked_files(mypy_output: str) -> int | None:
    """Return the number of files mypy says it checked, None when it does not say."""
    found = CHECKED.search(mypy_output)
    return int(found.group(1)) if found else None


def main() -> int:
    """Check the package, one run at a time: a second one would pull the tree from under the first."""
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build" / "types.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return check()


def check() -> int:
    """Run mypy over the tree; return 0 only when it is clean and has seen every file."""
    folders = package_folders(ROOT)
    files = package_files(ROOT, folders)
    lacking = folders_without_init(files)
    if lacking:
        print(f"types: no __init__.py in {', '.join(lacking)}", file=sys.stderr)
        return 1
    build_tree(files, ROOT, ROOT / TREE)
    command = [sys.executable, "-m", "mypy", "-p", "prescope", *sys.argv[1:]]
    environment = {**os.environ, "MYPYPATH": str(ROOT / TREE)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    report = done.stdout
    for name, folder in sorted(folders.items(), reverse=True):
        report = report.replace(f"{TREE / name.replace('.', '/')}/", f"{folder}/")
    sys.stdout.write(report)
    sys.stderr.write(done.stderr)
    checked = checked_files(done.stdout)
    if checked != len(files):
        print(f"types: expected mypy to check {len(files)} files, it checked {checked}", file=sys.stderr)
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
