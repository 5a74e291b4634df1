"""The recipe works: a smaller model trained from nothing learns, loads, and keeps to its split."""

import math
from collections import Counter

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = pytest.mark.slow


def unigram_loss(train_rows, heldout_rows, vocab):
    counts = Counter(np.concatenate(train_rows).tolist())
    total = sum(counts.values()) + vocab
    return float(np.mean([-math.log((counts[token] + 1) / total) for token in heldout_rows.ravel().tolist()]))


def test_a_smaller_model_is_built_from_nothing(tmp_path):
    from prescope.tiny import heldout_streams, load_tiny
    from prescope.tiny._batches import encode_files
    from prescope.tiny._checkpoint import read_provenance, save_checkpoint, weights_sha256
    from prescope.tiny._loss import validation_loss
    from prescope.tiny._recipe import ModelShape, Recipe
    from prescope.tiny._training import train
    from prescope.tiny.report import report

    shape = ModelShape(
        vocab=512, hidden=64, layers=3, experts=8, top_k=2, expert_hidden=32, heads=2, kv_heads=1, head_dim=32
    )
    recipe = Recipe(
        shape=shape, steps=150, batch_sequences=4, sequence_tokens=128, train_bytes=600_000, threads=1, seed=3
    )
    seen = []
    trained = train(recipe, observe=seen.append)
    folder = tmp_path / "small"
    record = save_checkpoint(trained, folder, recipe=recipe)

    assert [progress.step for progress in seen] == list(range(1, 151)) and seen[-1].fraction == 1.0
    assert not {f.name for f in trained.corpus.train} & {f.name for f in trained.corpus.heldout}
    assert record == read_provenance(folder) and record["weights_sha256"] == weights_sha256(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["small"]

    model, tokenizer = load_tiny(path=folder)
    loss = validation_loss(model, trained.heldout_rows)
    assert loss == pytest.approx(record["validation_loss"], abs=1e-3)
    assert len(tokenizer) == 512
    assert loss < unigram_loss(encode_files(tokenizer, trained.corpus.train), trained.heldout_rows, 512) - 0.5

    result = report(folder, streams=8, length=128)
    assert result.dead_experts == [0, 0, 0] and len(result.stale_gate) == 2
    assert np.mean(result.stale_gate[0]) > np.mean(result.popularity) > result.random
    assert heldout_streams(4, length=128, source="stdlib", path=folder).max() < 512


def test_the_same_seed_gives_the_same_weights():
    from prescope.tiny._recipe import ModelShape, Recipe
    from prescope.tiny._training import train

    shape = ModelShape(
        vocab=320, hidden=32, layers=2, experts=4, top_k=2, expert_hidden=16, heads=1, kv_heads=1, head_dim=32
    )
    recipe = Recipe(
        shape=shape, steps=4, batch_sequences=2, sequence_tokens=64, train_bytes=60_000, threads=1
    )
    first, again = (train(recipe).model.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
