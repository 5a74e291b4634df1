"""Refuses names that nobody knows before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def check_names(
    *, policies: Iterable[str], retentions: Iterable[str], predictor: str, preset: str, clairvoyant: bool
) -> None:
    """Refuse what `prescope.compare.CompareSettings` cannot mean.

    Parameters
    ----------
    policies, retentions, predictor, preset, clairvoyant
        As of `prescope.compare.CompareSettings`.

    Raises
    ------
    ValueError
        At the first name that is unknown, or that names a file or folder which is not there.
    """
    from prescope.formulation import preset as named_preset
    from prescope.predictor import require_predictor
    from prescope.solver.residency.retentions import parse_retention

    what, known = _known_policies(clairvoyant)
    for policy in policies:
        if policy not in known:
            raise ValueError(f"expected a {what} among {', '.join(known)}, got {policy!r}")
    for retention in retentions:
        trace = parse_retention(retention)[1]
        if trace and not Path(trace).is_file():
            raise ValueError(f"expected a file of recorded routing for {retention!r}, got none")
    kind, folder = require_predictor(predictor)
    if folder and not Path(folder.removesuffix("+tune")).is_dir():
        raise ValueError(f"expected the folder of a trained predictor for {predictor!r}, got none")
    if kind == "oracle" and not clairvoyant:
        raise ValueError("expected a predictor that forecasts, got 'oracle': clairvoyant runs have it")
    named_preset(preset)


def _known_policies(clairvoyant: bool) -> tuple[str, tuple[str, ...]]:
    if clairvoyant:
        from prescope.solver import methods

        return "method", methods()
    from prescope.solver.online import gate_policies

    return "policy", gate_policies()
