"""Settings every test shares: reproducible hypothesis, one thread per process, an honest numba cache."""

import hashlib
import os
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("formulation", "instances", "solver", "predictor", "runtime", "prescope")

# Derandomised: a red run is red again. HYPOTHESIS_PROFILE=explore looks for new examples.
settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", parent=settings.get_profile("ci"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Read by torch when it is first imported, which not every test needs; the workers share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def compiled_sources_digest() -> str:
    """Digest the files that compile with numba: its own cache overlooks a change in a called file."""
    digest = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            source = path.read_bytes()
            if b"numba" in source:
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + source)
    return digest.hexdigest()[:16]


os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / "build" / "numba" / compiled_sources_digest()))
