"""From a plan to an executed trace: programs, their verification, and the backends that run them."""

from __future__ import annotations

from prescope.runtime.arena import DeviceArena, arena_bytes
from prescope.runtime.backends import Backend, Ticket, Work, backends, open_backend
from prescope.runtime.builder import ProgramBuilder
from prescope.runtime.compile import builder_for, compile_plan
from prescope.runtime.errors import (
    ContentError,
    ExecutionError,
    OrderError,
    PlanError,
    SlotStateError,
    StallError,
)
from prescope.runtime.execution import execute, preamble, run_plan
from prescope.runtime.happens_before import verify
from prescope.runtime.program import Op, OpKind, Program, Stream
from prescope.runtime.requests import CopyRequest, ExpertWork
from prescope.runtime.slots import SlotState, SlotTable
from prescope.runtime.stepper import Stepper
from prescope.runtime.store import ExpertStore, HostStore, Part, consecutive_parts
from prescope.runtime.synthetic import synthetic_store
from prescope.runtime.trace import StepTrace, Violations

__all__ = [
    "Backend",
    "ContentError",
    "CopyRequest",
    "DeviceArena",
    "ExecutionError",
    "ExpertStore",
    "ExpertWork",
    "HostStore",
    "Op",
    "OpKind",
    "OrderError",
    "Part",
    "PlanError",
    "Program",
    "ProgramBuilder",
    "SlotState",
    "SlotStateError",
    "SlotTable",
    "StallError",
    "StepTrace",
    "Stepper",
    "Stream",
    "Ticket",
    "Violations",
    "Work",
    "arena_bytes",
    "backends",
    "builder_for",
    "compile_plan",
    "consecutive_parts",
    "execute",
    "open_backend",
    "preamble",
    "run_plan",
    "synthetic_store",
    "verify",
]
