"""What a computation does with its weights when nobody gave it anything to do, and when somebody did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prescope.runtime.backends.base import Work
from prescope.runtime.errors import ContentError
from prescope.runtime.program import Op

if TYPE_CHECKING:
    from torch import Tensor

    from prescope.runtime.store import HostStore


def run_payload(store: HostStore, op: Op, row: Tensor, work: Work | None) -> None:
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

    if not torch.equal(row, store.row(op.layer, expert)):
        raise ContentError(
            f"expected the weights of layer {op.layer} expert {expert}, got others: {op.describe()}"
        )


def _expert(op: Op) -> int:
    if op.expert is None:
        raise ContentError(f"expected an expert to compute, got {op.describe()}")
    return op.expert
