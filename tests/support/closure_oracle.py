"""The happens-before question by brute force: all pairs of accesses in the closure of the order."""

from __future__ import annotations

from itertools import combinations

import networkx as nx

from prescope.runtime import Op, OpKind, Program


def closure_finds(first: Program, second: Program) -> bool:
    """Whether two consecutive steps hold a hazard."""
    steps = (first, second)
    ops: list[tuple[int, Op]] = [(0, op) for op in first.ops] + [(1, op) for op in second.ops]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(ops)))
    last = {}
    for index, (step, op) in enumerate(ops):
        if op.stream in last:
            graph.add_edge(last[op.stream], index)
        last[op.stream] = index
        graph.add_edges_from((wait + step * len(first.ops), index) for wait in op.waits)
    order = nx.transitive_closure_dag(graph)
    for (i, (_, a)), (j, (_, b)) in combinations(enumerate(ops), 2):
        conflict = (set(a.writes) & {*b.reads, *b.writes}) or (set(b.writes) & set(a.reads))
        if conflict and not (order.has_edge(i, j) or order.has_edge(j, i)):
            return True
    for index, (step, op) in enumerate(ops):
        if op.kind is OpKind.COMPUTE and op.place is not None:
            writers = [w for w in order.predecessors(index) if f"slot:{op.place}" in ops[w][1].writes]
            final = [w for w in writers if not any(order.has_edge(w, other) for other in writers)]
            if [_brings(steps, *ops[w], op.place) for w in final] != [(step, op.layer, op.expert)]:
                return True
    for index, (step, op) in enumerate(ops):
        if op.kind is OpKind.PREDICT:
            ends = {OpKind.DENSE: op.layer, OpKind.JOIN: first.layers}
            before, after = (
                next(i for i, (s, o) in enumerate(ops) if (s, o.kind, o.layer) == (step, kind, layer))
                for kind, layer in ends.items()
            )
            if not (order.has_edge(before, index) and order.has_edge(index, after)):
                return True
    left = [(slot, *owner) for slot, owner in first.final().items()]
    return not set(second.initial) <= set(left)


def _brings(
    steps: tuple[Program, Program], step: int, op: Op, slot: int
) -> tuple[int, int, int | None] | None:
    """Step, layer and expert of what a writer puts into a slot; a fork puts there what was there."""
    if op.kind is OpKind.FORK:
        return next(((step, *owner) for at, *owner in steps[step].initial if at == slot), None)
    return step, op.layer, op.expert
