"""What a computation does with its weights when nobody gave it anything to do, and when somebody did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from prescope.runtime.backends._node import Node
from prescope.runtime.backends.base import Work
from prescope.runtime.errors import ContentError, OrderError
from prescope.runtime.program import Op, OpKind, Stream
from prescope.runtime.store import host_row

if TYPE_CHECKING:
    from torch import Tensor

    from prescope.runtime.arena import DeviceArena
    from prescope.runtime.store import ExpertStore


def work_of(op: Op, work: Mapping[int, Work], predict: Callable[[], None] | None) -> Work | None:
    """What an operation has to do, ``None`` for nothing but its own job."""
    if op.kind is OpKind.PREDICT:
        return None if predict is None else lambda _: predict()
    return None if op.expert is None else work.get(op.expert)


def compute(store: ExpertStore, arena: DeviceArena, node: Node) -> None:
    """Compute one expert from where its lane reads: on the device its slot or resident row, else the host's.

    A prediction reads no weights.

    Raises
    ------
    ContentError
        When there is no work and the weights are not the expert's.
    """
    op = node.op
    if op.kind is OpKind.PREDICT:
        if node.work is not None:
            node.work({})
        return
    expert = _expert(op)
    if op.stream is Stream.CPU:
        row = host_row(store, op.layer, expert)
    else:
        row = arena.device_row(op.layer, expert, op.place)
    run_payload(store, op, row, node.work)


def run_payload(store: ExpertStore, op: Op, row: Tensor, work: Work | None) -> None:
    """Compute from a flat row, or check that it holds exactly the expert's weights.

    Raises
    ------
    ContentError
        When there is no work and the row differs from the host's.
    """
    expert = _expert(op)
    if work is not None:
        work(store.views(op.layer, row))
        return
    import torch

    if not torch.equal(row, host_row(store, op.layer, expert)):
        raise ContentError(
            f"expected the weights of layer {op.layer} expert {expert}, got others: {op.describe()}"
        )


def _expert(op: Op) -> int:
    if op.expert is None:
        raise OrderError(f"expected an expert to compute, got {op.describe()}")
    return op.expert
