"""A recorded batch reaches a predictor row by row, gate by gate, with ids that follow each sequence."""

import numpy as np
import pytest

from prescope.instances import Phase, RoutingTrace, TraceMeta, decode_batches, prefill
from prescope.predictor import Popularity, replay

LAYERS, EXPERTS = 2, 4


def trace_of(lengths, *, prompt=1, hidden=True):
    tokens = sum(lengths)
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    phase = np.full(tokens, Phase.DECODE, dtype=np.uint8)
    for start in offsets[:-1]:
        phase[start : start + prompt] = Phase.PREFILL
    return RoutingTrace(
        topk_ids=rng.random((tokens, LAYERS, EXPERTS)).argsort(2)[..., :2].astype(np.int16),
        topk_weights=rng.random((tokens, LAYERS, 2)).astype(np.float32),
        hidden=rng.random((tokens, LAYERS, 3)).astype(np.float16) if hidden else None,
        seq_offsets=offsets,
        phase=phase,
        meta=TraceMeta(model="m", experts=EXPERTS, top_k=2),
    )


class Witness(Popularity):
    def __init__(self):
        super().__init__(layers=LAYERS, experts=EXPERTS, top_k=2)
        self.steps, self.gates = [], []

    def begin_step(self, tokens, *, sequences=None, token_ids=None):
        super().begin_step(tokens)
        self.steps.append(sequences.tolist())

    def observe(self, layer, hidden, indices, weights):
        super().observe(layer, hidden, indices, weights)
        self.gates.append((layer, hidden, indices, weights))


def test_every_gate_is_reported_once_with_what_was_recorded():
    trace, witness = trace_of([4, 3]), Witness()
    seen = [(step.rows.tolist(), layer) for step, layer in replay(witness, trace, decode_batches(trace, 2))]
    assert seen == [([a, b][: 2 if b else 1], at) for a, b in ((1, 5), (2, 6), (3, 0)) for at in (-1, 0, 1)]
    assert [at for at, *_ in witness.gates] == [0, 1] * 3
    layer, hidden, indices, weights = witness.gates[1]
    assert hidden.numpy() == pytest.approx(trace.hidden[[1, 5], layer])
    assert indices.tolist() == trace.topk_ids[[1, 5], layer].tolist()
    assert weights.numpy() == pytest.approx(trace.topk_weights[[1, 5], layer])


def test_ids_follow_sequences_through_prompts_decoding_and_groups():
    trace, witness = trace_of([4, 5, 3], prompt=2), Witness()
    list(replay(witness, trace, [*prefill(trace, 2), *decode_batches(trace, 2)]))
    assert witness.steps == [[0, 0, 1, 1], [2, 2], [0, 1], [0, 1], [1], [2]]


def test_pieces_stepped_side_by_side_are_sequences_of_their_own():
    trace, witness = trace_of([9]), Witness()
    list(replay(witness, trace, decode_batches(trace, 8, segment_tokens=1)))
    assert witness.steps == [list(range(8))]
    witness = Witness()
    list(replay(witness, trace, decode_batches(trace, 4, segment_tokens=2)))
    assert witness.steps == [[0, 1, 2, 3]] * 2


def test_missing_routing_is_refused():
    trace = trace_of([3], hidden=False)
    ids = np.array(trace.topk_ids)
    ids[2, 1] = -1
    gaps = RoutingTrace(topk_ids=ids, seq_offsets=trace.seq_offsets, phase=trace.phase, meta=trace.meta)
    steps = decode_batches(gaps, 1, on_missing="ignore")
    with pytest.raises(ValueError, match="recorded routing of layer 1"):
        list(replay(Witness(), gaps, steps))
