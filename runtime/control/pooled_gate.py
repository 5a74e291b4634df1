"""One gate over a pool of rows as a single compiled call: forecasts, decision, clock and rows.

It does what `prescope.runtime.control.pooled.PooledStep` does, to the nanosecond.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.runtime.control.pooled_guard import RESTING, note_displaced, settle
from prescope.runtime.control.pooled_site import PoolSite, PoolState
from prescope.runtime.control.step_state import HOST_FREE, LAYER_END, LINK, NEVER, BoolArray
from prescope.solver.online.gate_arrays import Coming, Gate, PolicyCode
from prescope.solver.online.kernel import decide
from prescope.solver.online.reads import plan_reads

_NOT_RUN = -1


@numba.njit(cache=True, error_model="numpy")
def run_pooled_gate(
    site: PoolSite,
    state: PoolState,
    layer: int,
    counts: IntArray,
    ahead: int,
    code: PolicyCode,
    scores: FloatArray,
) -> None:
    """Decide ``layer`` (-1 is the start) from its true counts and forecasts.

    ``state.likely`` and ``state.tokens`` hold the forecasts of the ``ahead`` layers that come; ``scores`` is
    the residency's worth of every expert and is changed.
    """
    experts = counts.shape[0]
    clock = state.clock
    gate_ns = clock[LAYER_END] + site.dense_ns[layer] if layer >= 0 else 0
    here = max(layer, 0)
    gpu_row = site.gpu_ns[here % site.gpu_ns.shape[0]]
    gpu_ns = np.empty(experts, dtype=np.int64)
    nothing = np.zeros(experts, dtype=np.int64)
    active = np.empty(experts, dtype=np.bool_)
    arrival = np.full(experts, NEVER, dtype=np.int64)
    for expert in range(experts):
        gpu_ns[expert] = gpu_row[counts[expert]]
        active[expert] = counts[expert] > 0
        if layer >= 0 and state.places[layer, expert] != NEVER:
            arrival[expert] = max(0, state.arrival_ns[layer, expert] - gate_ns)
    waiting = _waiting(state, layer)
    rows = state.owners.shape[0]
    free = max(0, rows - 1 - waiting)
    coming, worthwhile = _coming(site, state, layer, ahead if code.ahead != 0 else 0)
    look = 0 if code.expected or not worthwhile else coming.dense_ns.shape[0]
    gate = Gate(
        layer,
        gpu_ns,
        nothing,
        active,
        arrival,
        np.zeros(experts, dtype=np.bool_),
        site.copy_ns[here],
        max(0, clock[LINK] - gate_ns),
        0,
        rows,
        free,
        False,
    )
    gpu, _, wishes, _ = decide(gate, _first(coming, look), code, state.answer)
    state.counters[1] = gpu
    if site.guard > 0.0 and layer >= 0:
        settle(state, layer, counts, site.copy_ns[layer], gate_ns, site.guard)
    _lift(site, state, layer, scores)
    computed = np.full(experts, _NOT_RUN, dtype=np.int64)
    if layer >= 0:
        _run_layer(site, state, layer, gpu, gpu_ns, gate_ns, active, scores, computed)
    next_gate_ns = clock[LAYER_END]
    if layer + 1 < site.dense_ns.shape[0]:
        next_gate_ns += site.dense_ns[layer + 1]
    if code.expected:
        wishes = 0
        if worthwhile:
            wishes = plan_reads(
                coming.probability,
                coming.gpu_ns,
                coming.held,
                coming.dense_ns,
                coming.copy_ns,
                float(clock[LAYER_END] - clock[LINK]),
                free,
                code.spread,
                site.least,
                state.answer.wish_ahead,
                state.answer.wish_expert,
            )
    _read_ahead(site, state, layer, wishes, gate_ns, next_gate_ns, active, scores)


@numba.njit(cache=True, error_model="numpy")
def _coming(site: PoolSite, state: PoolState, layer: int, ahead: int) -> tuple[Coming, bool]:
    """Expected costs of the coming layers, and whether anything in them is likely enough."""
    experts = state.places.shape[1]
    cpu_ns, gpu_ns = np.zeros((ahead, experts)), np.zeros((ahead, experts))
    held = np.zeros((ahead, experts), dtype=np.bool_)
    worthwhile = False
    most = float(max(1, site.tokens))
    for row in range(ahead):
        target = layer + 1 + row
        gpu_row = site.gpu_ns[target % site.gpu_ns.shape[0]]
        copy_ns = float(site.copy_ns[target])
        for expert in range(experts):
            share = state.likely[target, expert]
            held[row, expert] = state.places[target, expert] != NEVER
            worthwhile |= share >= site.least and not held[row, expert]
            if share > 0.0:
                mean = min(max(state.tokens[row, expert] / share, 1.0), most)
                whole = int(mean)
                rest = mean - whole
                gpu_ns[row, expert] = share * (gpu_row[whole] * (1.0 - rest) + gpu_row[whole + 1] * rest)
                cpu_ns[row, expert] = share * copy_ns + gpu_ns[row, expert]
    likely = state.likely[layer + 1 : layer + 1 + ahead]
    dense_ns = site.dense_ns[layer + 1 : layer + 1 + ahead]
    copies_ns = site.copy_ns[layer + 1 : layer + 1 + ahead]
    return Coming(cpu_ns, gpu_ns, likely, held, dense_ns, copies_ns), worthwhile


@numba.njit(cache=True)
def _first(coming: Coming, rows: int) -> Coming:
    return Coming(
        coming.cpu_ns[:rows],
        coming.gpu_ns[:rows],
        coming.probability[:rows],
        coming.held[:rows],
        coming.dense_ns[:rows],
        coming.copy_ns[:rows],
    )


@numba.njit(cache=True)
def _waiting(state: PoolState, layer: int) -> int:
    """Copies of this step whose layer is still to come."""
    found = 0
    layers, experts = state.arrival_ns.shape
    for target in range(layer + 1, layers):
        for expert in range(experts):
            found += state.arrival_ns[target, expert] != NEVER
    return found


@numba.njit(cache=True, error_model="numpy")
def _lift(site: PoolSite, state: PoolState, layer: int, scores: FloatArray) -> None:
    """A likely use ahead counts as if the layer were next and the expert certain, weighted by likelihood."""
    top = scores.max()
    layers, experts = scores.shape
    for target in range(layer + 1, min(layers, layer + 1 + site.lookahead)):
        for expert in range(experts):
            score = scores[target, expert]
            scores[target, expert] = max(score, score + state.likely[target, expert] * (top - score))


@numba.njit(cache=True, error_model="numpy")
def _run_layer(
    site: PoolSite,
    state: PoolState,
    layer: int,
    gpu: int,
    gpu_ns: IntArray,
    gate_ns: int,
    active: BoolArray,
    scores: FloatArray,
    computed: IntArray,
) -> None:
    clock, experts = state.clock, active.shape[0]
    device = gate_ns
    for rank in range(gpu):
        expert = state.answer.gpu[rank]
        if state.places[layer, expert] == NEVER:
            # Rows that the link need not wait for first, then any whose expert is done with.
            row = _victim(
                site, state, layer, scores, layer, active, computed, max(clock[LINK], gate_ns), np.inf
            )
            if row < 0:
                row = _victim(
                    site, state, layer, scores, layer, active, computed, np.iinfo(np.int64).max, np.inf
                )
            if row < 0:
                raise ValueError("expected a row for a missing expert, got all in use")
            ready = 0
            owner = state.owners[row]
            if owner // experts == layer and computed[owner % experts] != _NOT_RUN:
                ready = computed[owner % experts]
            _copy(site, state, layer, expert, row, layer, max(gate_ns, ready))
        device = max(device, state.arrival_ns[layer, expert]) + gpu_ns[expert]
        computed[expert] = device
    end = device
    clock[HOST_FREE] = max(gate_ns, clock[HOST_FREE]) + site.prediction_ns[layer]
    if layer + 1 == site.dense_ns.shape[0]:
        # A step is over when its last prediction is.
        end = max(end, clock[HOST_FREE])
    clock[LAYER_END] = end


@numba.njit(cache=True, error_model="numpy")
def _victim(
    site: PoolSite,
    state: PoolState,
    target: int,
    scores: FloatArray,
    layer: int,
    active: BoolArray,
    computed: IntArray,
    done_ns: int,
    below: float,
) -> int:
    """The row to give to an expert of ``target``, or -1; see `RowPool.victim`.

    Copies for layers after ``layer`` stay, and its active experts unless computed at ``done_ns``.
    """
    rows, experts = state.owners.shape[0], active.shape[0]
    own_only = False
    if site.quota >= 0:
        held = 0
        for row in range(rows):
            held += state.owners[row] >= 0 and state.owners[row] // experts == target
        own_only = held >= site.quota
    best, best_score = -1, below
    for row in range(rows):
        owner = state.owners[row]
        if owner < 0:
            if not own_only:
                return row
            continue
        of, expert = owner // experts, owner % experts
        if own_only and of != target:
            continue
        score = scores[of, expert]
        # Before the bars: they need more looking up and most rows fail here.
        if not score < best_score:
            continue
        if of > layer and state.arrival_ns[of, expert] != NEVER:
            continue
        if of == layer and active[expert] and (computed[expert] == _NOT_RUN or computed[expert] > done_ns):
            continue
        best, best_score = row, score
    return best


@numba.njit(cache=True, error_model="numpy")
def _read_ahead(
    site: PoolSite,
    state: PoolState,
    layer: int,
    wishes: int,
    gate_ns: int,
    next_gate_ns: int,
    active: BoolArray,
    scores: FloatArray,
) -> None:
    resting = site.guard > 0.0 and state.trust_ns[RESTING] != 0.0
    link_ns = max(state.clock[LINK], gate_ns)
    room = state.owners.shape[0] - _waiting(state, layer)
    # Rows of the running layer are left alone: they may still be read when the copy starts.
    computed = np.full(active.shape[0], _NOT_RUN, dtype=np.int64)
    for rank in range(wishes):
        target, expert = layer + state.answer.wish_ahead[rank], state.answer.wish_expert[rank]
        likely = state.likely[target, expert]
        if likely < site.least:
            continue
        if link_ns >= next_gate_ns:
            break
        copy_ns = site.copy_ns[target]
        if room < 2:
            break
        row = _victim(site, state, target, scores, layer, active, computed, 0, scores[target, expert])
        if row < 0:
            continue
        note_displaced(state, target, expert, row)
        state.promise_ns[target, expert] = likely * copy_ns
        room -= 1
        if resting:
            # Wishes are watched, not granted; the next one would displace somebody else.
            link_ns += copy_ns
            state.watched_ns[target, expert] = link_ns
            owner = state.owners[row]
            if owner >= 0:
                scores[owner // active.shape[0], owner % active.shape[0]] = np.inf
            continue
        _copy(site, state, target, expert, row, layer, gate_ns)
        link_ns = state.clock[LINK]


@numba.njit(cache=True)
def _copy(
    site: PoolSite, state: PoolState, layer: int, expert: int, row: int, gate: int, ready_ns: int
) -> None:
    experts = state.places.shape[1]
    state.clock[LINK] = max(state.clock[LINK], ready_ns) + site.copy_ns[layer]
    owner = state.owners[row]
    if owner >= 0:
        state.places[owner // experts, owner % experts] = NEVER
    state.owners[row] = layer * experts + expert
    state.places[layer, expert] = row
    state.arrival_ns[layer, expert] = state.clock[LINK]
    line = state.copies[state.counters[0]]
    line[0], line[1], line[2], line[3] = layer, expert, row, gate
    state.counters[0] += 1
