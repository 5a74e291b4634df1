"""Small horizons for the benchmark, in memory and in files."""

from dataclasses import replace
from pathlib import Path

from tiny_horizons import tiny_horizon, with_knowledge

from prescope.instances import HorizonFile, Provenance, write_horizon

PAIRS = ("static+dp-fast", "lru+dp-fast", "belady+dp-fast", "flow+dp-fast", "static+expected")
SEEDS = (4, 13)


def horizon_of(seed):
    """A horizon with several steps, more experts than places, and a host that computes."""
    horizon = with_knowledge(tiny_horizon(seed, 4, host=True))
    sequence = tuple(horizon.demands[number % 4] for number in range(13))
    return replace(horizon, name=f"tiny-{seed}", history=(sequence,) * 2)


def write_files(folder: Path) -> list[str]:
    paths = []
    for seed in SEEDS:
        path = folder / f"tiny-{seed}.json.gz"
        write_horizon(path, HorizonFile(horizon=horizon_of(seed), provenance=Provenance(source="test")))
        paths.append(str(path))
    return paths
