"""A gate policy that brings what an offline method planned from predictions."""

from __future__ import annotations

from prescope.formulation import Instance, Plan, Transfer
from prescope.runtime.control.twin import Planner, window_twin
from prescope.solver.online import GateState, SplitPolicy
from prescope.solver.online.future import Outlook


class FollowedPolicy(SplitPolicy):
    """Splits each layer as policy ``dp`` does, and prefetches what a plan says.

    Parameters
    ----------
    instance
        With ``predicted``.
    plan
        A plan for its predicted twin, or a function that plans the coming layers at every gate.
    """

    def __init__(self, instance: Instance, plan: Plan | Planner) -> None:
        name = f"followed-{plan.info.method}" if isinstance(plan, Plan) else "followed-every-gate"
        super().__init__(name, ahead=None)
        self._instance = instance
        self._plan = plan

    def wishes(self, state: GateState, outlook: Outlook, lead_ns: int) -> tuple[tuple[int, int], ...]:
        """The plan's copies for coming layers that are neither there nor on their way."""
        held = tuple(frozenset(forecast.held.nonzero()[0].tolist()) for forecast in state.future)
        if isinstance(self._plan, Plan):
            planned = _ahead(self._plan.transfers, state.layer)
        else:
            twin = window_twin(
                self._instance, gate=state.layer, held=held, slots=state.free_slots, lead_ns=lead_ns
            )
            planned = [(transfer.layer + 1, transfer.expert) for transfer in self._plan(twin).transfers]
        return tuple(
            (ahead, expert)
            for ahead, expert in planned
            if ahead <= len(held) and expert not in held[ahead - 1]
        )


def _ahead(transfers: tuple[Transfer, ...], layer: int) -> list[tuple[int, int]]:
    return [
        (transfer.layer - layer, transfer.expert)
        for transfer in transfers
        if transfer.layer > layer and (transfer.gate is None or transfer.gate <= layer)
    ]
