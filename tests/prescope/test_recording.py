"""Recording: a batch's trace is that of its sequences, on disk as in memory, whole or not at all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from example_traces import example_trace, same_trace
from tiny_models import random_model
from toy_tokenizer import ToyTokenizer

from prescope.instances import Phase, RoutingTrace, limits, read_trace, trace_spool, write_trace
from prescope.recording import RecordingSize, record_routing, record_to_file, recording_size

# Of different lengths, one of a single token; the toy tokenizer has a token per letter.
TEXTS = ["a slow fox", "b", "over the lazy dogs", "xyz", "the end", "m"]
NEW = 9


@pytest.fixture(scope="module")
def model() -> Any:
    torch.set_num_threads(1)
    model = random_model(layers=3, experts=8)
    # What the first prompt is continued with, some tokens on: rows that come to it end early.
    trace = record_routing(model, ToyTokenizer(), TEXTS[:1], batch=1, new_tokens=NEW)
    assert trace.token_ids is not None
    model.generation_config.eos_token_id = int(trace.token_ids[-4])
    return model


@pytest.fixture(scope="module")
def alone(model: Any) -> list[RoutingTrace]:
    """Each prompt by itself: no padding, no other row."""
    return [
        record_routing(model, ToyTokenizer(), [text], batch=1, new_tokens=NEW, hidden=True) for text in TEXTS
    ]


@pytest.mark.parametrize("batch", [1, 2, 4, 6])
def test_a_batch_is_recorded_as_its_sequences(model: Any, alone: list[RoutingTrace], batch: int) -> None:
    """Padding and rows that are finished leave no trace, wherever they are."""
    trace = record_routing(model, ToyTokenizer(), TEXTS, batch=batch, new_tokens=NEW, hidden=True)
    assert trace.sequences == len(TEXTS)
    lengths = np.diff(trace.seq_offsets)
    assert len(set((lengths - [len(text) for text in TEXTS]).tolist())) > 1, "no row ended early"
    for number, single in enumerate(alone):
        rows = slice(*trace.seq_offsets[number : number + 2])
        for name in ("topk_ids", "token_ids", "phase"):
            assert getattr(trace, name)[rows].tolist() == getattr(single, name).tolist(), (number, name)
        assert trace.topk_weights is not None and single.topk_weights is not None
        np.testing.assert_allclose(trace.topk_weights[rows], single.topk_weights, rtol=1e-4)
        assert trace.hidden is not None and single.hidden is not None
        np.testing.assert_allclose(trace.hidden[rows].astype(float), single.hidden.astype(float), atol=5e-3)


def test_prompts_are_prefill_and_token_ids_are_what_was_fed(alone: list[RoutingTrace]) -> None:
    for text, trace in zip(TEXTS, alone, strict=True):
        assert trace.token_ids is not None
        assert trace.token_ids[: len(text)].tolist() == [6 + ord(letter) % 90 for letter in text]
        assert trace.phase.tolist() == [Phase.PREFILL] * len(text) + [Phase.DECODE] * (
            trace.tokens - len(text)
        )


@pytest.mark.parametrize("hidden", [False, True])
def test_on_disk_as_in_memory(model: Any, tmp_path: Path, hidden: bool) -> None:
    known: dict[str, Any] = {"batch": 4, "new_tokens": NEW, "hidden": hidden}
    size = recording_size(model, ToyTokenizer(), TEXTS, new_tokens=NEW, hidden=hidden)
    recorded = record_to_file(model, ToyTokenizer(), TEXTS, tmp_path / "a.npz", **known)
    trace = record_routing(model, ToyTokenizer(), TEXTS, **known)
    write_trace(tmp_path / "b.npz", trace)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert (recorded.tokens, recorded.sequences, recorded.layers) == (trace.tokens, len(TEXTS), 3)
    # What was announced: exactly so many bytes a token, and no more tokens.
    kept = ("topk_ids", "topk_weights", "hidden", "token_ids", "phase", "padding")
    arrays = [getattr(trace, name) for name in kept if getattr(trace, name) is not None]
    # Ids are bytes in a file.
    token_bytes = sum(array.nbytes for array in arrays) // trace.tokens - trace.topk_ids[0].size
    assert (size.token_bytes, size.hidden_bytes) == (token_bytes, 3 * 32 * 2 if hidden else 0)
    assert trace.tokens <= size.tokens == sum(map(len, TEXTS)) + len(TEXTS) * (NEW - 1)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_recording_leaves_what_was_there(
    model: Any, tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "x.npz").write_text("before")

    def stop(done: int) -> None:
        assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]
        if done >= 4:
            raise error

    with pytest.raises(error):
        record_to_file(model, ToyTokenizer(), TEXTS, tmp_path / "x.npz", batch=2, new_tokens=2, progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]
    assert (tmp_path / "x.npz").read_text() == "before"
    # And the model is its own again.
    assert not any(weight.is_meta for weight in model.parameters())


def test_a_recording_that_grows_too_large_is_refused(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_TRACE_BYTES", 1000)
    size = recording_size(model, ToyTokenizer(), TEXTS, new_tokens=NEW, hidden=True)
    with pytest.raises(ValueError, match=r"at most 1000 bytes .* record without gating inputs, fewer"):
        size.require_possible()
    RecordingSize(token_bytes=10, hidden_bytes=0, tokens=100).require_possible()
    monkeypatch.setattr(trace_spool, "MAX_TRACE_BYTES", 1000)
    with pytest.raises(ValueError, match="record less, or into several files"):
        record_to_file(model, ToyTokenizer(), TEXTS, tmp_path / "x.npz", batch=2, new_tokens=NEW)
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_record_is_refused(model: Any, tmp_path: Path) -> None:
    for wrong in ({"prompts": []}, {"batch": 0}, {"new_tokens": 0}):
        known: dict[str, Any] = {"prompts": TEXTS, "batch": 2, "new_tokens": 2} | wrong
        with pytest.raises(ValueError, match=r"at least one prompt|\[1,"):
            record_to_file(model, ToyTokenizer(), path=tmp_path / "x.npz", **known)
    assert list(tmp_path.iterdir()) == []


def test_spooled_traces_are_one(tmp_path: Path) -> None:
    """Every array, more experts than a byte holds, and nothing of another model."""
    parts = [example_trace(seed, experts=300) for seed in range(3)]
    with trace_spool.TraceSpool(tmp_path) as spool:
        with pytest.raises(ValueError, match="at least one recorded sequence"):
            spool.write(tmp_path / "x.npz")
        for part in parts:
            spool.append(part)
        for other in (example_trace(experts=299), example_trace(experts=300, everything=False)):
            with pytest.raises(ValueError, match="same model with the same arrays"):
                spool.append(other)
        spool.write(tmp_path / "x.npz")
    whole = read_trace(tmp_path / "x.npz")
    assert whole.sequences == sum(part.sequences for part in parts)
    for name in ("topk_ids", "topk_weights", "hidden", "token_ids", "phase", "padding"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(getattr(whole, name), joined), name
    assert np.array_equal(whole.expert_bytes, parts[0].expert_bytes)  # type: ignore[arg-type]
    first = RoutingTrace(
        **{
            name: getattr(whole, name)[: parts[0].tokens]
            for name in ("topk_ids", "topk_weights", "hidden", "token_ids", "phase", "padding")
        },
        seq_offsets=whole.seq_offsets[: parts[0].sequences + 1],
        expert_bytes=whole.expert_bytes,
        dense_bytes=whole.dense_bytes,
        meta=whole.meta,
    )
    assert same_trace(first, parts[0])
