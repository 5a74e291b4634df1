"""From executed operations to the trace of a step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from prescope.formulation import Lane, Schedule, Task, TaskKind
from prescope.runtime.backends._node import Node, NodeState, StepNodes
from prescope.runtime.program import OpKind, Stream
from prescope.runtime.store import ExpertStore
from prescope.runtime.trace import StepTrace, Violations

_LANES = {Stream.CALLER: Lane.GPU, Stream.GPU: Lane.GPU, Stream.CPU: Lane.CPU, Stream.LINK: Lane.LINK}
_KINDS = {
    OpKind.DENSE: TaskKind.DENSE,
    OpKind.COPY: TaskKind.COPY,
    OpKind.COMPUTE: TaskKind.COMPUTE,
    OpKind.PREDICT: TaskKind.PREDICT,
}


def violation_kind(node: Node) -> str:
    """Name under which an operation's overrun is counted."""
    return str(node.op.stream) if node.op.kind is OpKind.COMPUTE else str(node.op.kind)


def step_trace(
    step: StepNodes,
    *,
    store: ExpertStore,
    backend: str,
    model_ns: Callable[[int], int],
    end_ns: int,
    link_free_ns: int,
    timed: bool,
    degraded: Sequence[str] = (),
    dilation: float = 1.0,
    began_unix_ns: int | None = None,
) -> StepTrace:
    """The trace of a step whose computations are all done.

    Parameters
    ----------
    step
        Its operations; copies still under way carry forecast times.
    store
        Says how large rows really are.
    backend
        Name of the backend.
    model_ns
        From the backend's clock to modelled time since the step began.
    end_ns
        End of the step on the backend's clock.
    link_free_ns
        When the link has done all copies, those of earlier steps included, on the backend's clock.
    timed
        Whether overruns mean anything.
    degraded, dilation, began_unix_ns
        As in `StepTrace`.
    """
    nodes = [node for node in step.nodes if node.op.kind in _KINDS]
    tasks = [_task(node, model_ns) for node in nodes]
    digest = hashlib.sha256()
    for node, task in zip(nodes, tasks, strict=True):
        digest.update(f"{node.op.id},{task.start_ns},{task.end_ns};".encode())
    tasks.sort(key=lambda task: (task.start_ns, task.end_ns, task.lane, task.layer))
    copies = [node for node in nodes if node.op.kind is OpKind.COPY]
    carried = [node for node in copies if node.state is not NodeState.DONE]
    makespan_ns = model_ns(end_ns)
    return StepTrace(
        backend=backend,
        schedule=Schedule(tasks=tuple(tasks), layer_end_ns=_layer_ends(tasks), makespan_ns=makespan_ns),
        carried=tuple((node.op.layer, node.op.expert or 0) for node in carried),
        link_busy_ns=max(0, model_ns(link_free_ns) - makespan_ns),
        bytes_moved=sum(node.op.size_bytes for node in copies),
        row_bytes_moved=sum(
            store.row_bytes(node.op.layer) if node.moved_bytes is None else node.moved_bytes
            for node in copies
        ),
        violations=_violations(nodes) if timed else (),
        degraded=tuple(degraded),
        dilation=dilation,
        began_unix_ns=began_unix_ns,
        digest=digest.hexdigest(),
    )


def _task(node: Node, model_ns: Callable[[int], int]) -> Task:
    op = node.op
    return Task(
        kind=_KINDS[op.kind],
        lane=_LANES[op.stream],
        layer=op.layer,
        expert=op.expert,
        slot=op.slot,
        start_ns=model_ns(node.start_ns),
        end_ns=model_ns(node.end_ns),
    )


def _layer_ends(tasks: Sequence[Task]) -> tuple[int, ...]:
    ends: dict[int, int] = {}
    for task in tasks:
        if task.kind in (TaskKind.DENSE, TaskKind.COMPUTE):
            ends[task.layer] = max(ends.get(task.layer, 0), task.end_ns)
    if ends:
        # The last layer's end is the step's, which waits for the predictions too.
        predictions = [task.end_ns for task in tasks if task.kind is TaskKind.PREDICT]
        ends[max(ends)] = max(ends[max(ends)], *predictions, 0)
    return tuple(ends[layer] for layer in sorted(ends))


def _violations(nodes: Sequence[Node]) -> tuple[Violations, ...]:
    counts: dict[str, list[int]] = {}
    for node in nodes:
        entry = counts.setdefault(violation_kind(node), [0, 0])
        entry[0] += node.overran
        entry[1] += 1
    return tuple(
        Violations(kind=kind, count=count, total=total) for kind, (count, total) in sorted(counts.items())
    )
