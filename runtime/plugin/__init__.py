"""The plug-in for transformers models."""

from prescope.runtime.plugin.attach import DEFAULT_PRESET, attach
from prescope.runtime.plugin.engine import Engine
from prescope.runtime.plugin.moe_layers import FAMILIES, AttachError, expert_bytes, moe_layers
from prescope.runtime.plugin.report import EngineReport, StepReport, Totals
from prescope.runtime.plugin.settings import EngineSettings, StepRecord
from prescope.solver.residency.retentions import retentions

__all__ = [
    "DEFAULT_PRESET",
    "FAMILIES",
    "AttachError",
    "Engine",
    "EngineReport",
    "EngineSettings",
    "StepRecord",
    "StepReport",
    "Totals",
    "attach",
    "expert_bytes",
    "moe_layers",
    "retentions",
]
