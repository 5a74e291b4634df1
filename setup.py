"""Lists the packages of every room; everything else is declared in pyproject.toml."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent


def packages() -> list[str]:
    """Return each mapped package and every folder below it that has an `__init__.py`."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names: list[str] = []
    for package, folder in config["tool"]["setuptools"]["package-dir"].items():
        names.append(package)
        names.extend(f"{package}.{below}" for below in find_packages(str(ROOT / folder)))
    return sorted(names)


if __name__ == "__main__":
    setup(packages=packages())
