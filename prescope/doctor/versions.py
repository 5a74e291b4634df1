"""Whether what is installed is what the package declares to need."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from prescope.doctor.finding import Finding, State

_AREA = "versions"
_FOR = {
    "hf": "serving, recording and training models of transformers",
    "plot": "pictures",
    "bench": "benchmarks in several processes, and exact models",
    "dask": "benchmarks on a cluster",
}


def examine_versions() -> Iterator[Finding]:
    """Python, the package, and every package it declares, those of extras included (not the developers')."""
    yield Finding(area=_AREA, name="python", state=State.OK, found=platform.python_version())
    yield Finding(area=_AREA, name="prescope", state=State.OK, found=version("prescope"))
    seen: set[str] = set()
    for text in requires("prescope") or ():
        wanted = Requirement(text)
        extra = next((name for name in _FOR if _belongs(wanted, name)), None)
        if wanted.name in seen or (extra is None and wanted.marker is not None):
            continue
        seen.add(wanted.name)
        yield judge_package(wanted, extra)


def _belongs(wanted: Requirement, extra: str) -> bool:
    marker = wanted.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def judge_package(wanted: Requirement, extra: str | None) -> Finding:
    """Compare one installed package with what is declared.

    Parameters
    ----------
    wanted
        The declared requirement.
    extra
        The extra that asks for it; ``None`` when it is always needed.
    """
    install = "pip install prescope" if extra is None else f"pip install 'prescope[{extra}]'"
    purpose = "prescope needs it" if extra is None else f"needed for {_FOR.get(extra, extra)}"
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        state = State.BROKEN if extra is None else State.DEGRADED
        return Finding(
            area=_AREA, name=wanted.name, state=state, found="not installed", effect=purpose, remedy=install
        )
    # Local builds (2.13.0+cpu) and pre-releases count as what they are a build of.
    if not wanted.specifier.contains(found, prereleases=True):
        return Finding(
            area=_AREA,
            name=wanted.name,
            state=State.BROKEN if extra is None else State.DEGRADED,
            found=f"{found}, expected {wanted.specifier}",
            effect=purpose,
            remedy=install,
        )
    return Finding(area=_AREA, name=wanted.name, state=State.OK, found=found)
