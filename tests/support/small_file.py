"""A small instance file, as it is and as its document."""

import json
from pathlib import Path
from typing import Any

from prescope.instances import Bounds, InstanceFile, Provenance, synthetic_instance, write_instance


def small_file() -> InstanceFile:
    instance = synthetic_instance("mixtral-8x7b", "a100-pcie4", 2, 1)
    return InstanceFile(
        instance=instance,
        provenance=Provenance(source="test", seed=1),
        bounds=Bounds(lower_bound_ns=5, lower_bound_by="test"),
    )


def small_document(tmp_path: Path) -> dict[str, Any]:
    write_instance(tmp_path / "small.json", small_file())
    loaded: dict[str, Any] = json.loads((tmp_path / "small.json").read_bytes())
    return loaded
