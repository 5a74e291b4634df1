"""The predictor that comes with the tiny model: it belongs to it, is small, and works by name."""

import numpy as np
import pytest
import torch

import prescope
from prescope.instances import decode_batches
from prescope.models import named_predictor
from prescope.predictor import replay
from prescope.predictor.llapor import Llapor, load_llapor
from prescope.runtime.plugin import AttachError
from prescope.tiny import heldout_streams, load_tiny, tiny_llapor_path
from prescope.tiny._stream_trace import stream_trace


@pytest.fixture(scope="module")
def tiny():
    return load_tiny()[0]


def test_it_is_small_and_recalls_what_a_stale_gate_cannot(tiny):
    files = list(tiny_llapor_path().iterdir())
    assert sum(path.stat().st_size for path in files) < 1.5e6
    trace = stream_trace(tiny, heldout_streams(12, length=48), source="shipped")
    predictor = Llapor(load_llapor(tiny_llapor_path()))
    hits, tokens = np.zeros(8), np.zeros(8)
    for step, layer in replay(predictor, trace, decode_batches(trace, 12, max_steps=20)):
        for horizon in range(1, 8 - layer):
            named = predictor.predict_tokens(layer, horizon).argsort(axis=1)[:, -4:]
            truth = trace.topk_ids[step.rows, layer + horizon]
            hits[horizon - 1] += (named[:, :, None] == truth[:, None, :]).sum()
            tokens[horizon - 1] += truth.size
    assert (hits / tokens)[:4] == pytest.approx([0.86, 0.83, 0.80, 0.78], abs=0.05)


def test_it_serves_the_tiny_model_and_is_charged(tiny):
    name = named_predictor("tiny", "llapor")
    with prescope.attach(
        tiny, "2MiB", policy="dp", predictor=name, backend="sim", popularity=np.full((8, 32), 1 / 8)
    ) as engine:
        ids = torch.from_numpy(heldout_streams(3, length=6))
        with torch.no_grad():
            out = tiny(input_ids=ids, use_cache=True)
            tiny(input_ids=ids[:, :1], past_key_values=out.past_key_values, use_cache=True)
        report, record = engine.report(), engine.records[-1]
    assert report.predictor == "llapor" and len(report.steps) == 2
    # The last gate has no next layer to speak of.
    assert all(cost > 0 for cost in record.instance.prediction_ns[:-1])
    assert record.instance.prediction_ns[-1] == 0


def test_another_model_is_refused(tiny):
    with torch.no_grad():
        gate = tiny.model.layers[3].mlp.gate.weight
        before = gate.clone()
        gate.mul_(1.01)
    try:
        with pytest.raises(AttachError, match="weights of the gates: expected"):
            prescope.attach(tiny, "2MiB", predictor=named_predictor("tiny", "llapor"), backend="sim")
    finally:
        with torch.no_grad():
            gate.copy_(before)
    with pytest.raises(ValueError, match="expected 'llapor:FOLDER' for the model other"):
        named_predictor("other", "llapor")
    assert named_predictor("other", "stale-gate") == "stale-gate"
