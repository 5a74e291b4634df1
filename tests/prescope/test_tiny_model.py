"""The shipped checkpoint: whole, small, judged as it says, and of use for generation."""

import hashlib
import json
import re

import pytest

from prescope.tiny import heldout_streams, load_tiny, prompts, tiny_model_path

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tiny():
    torch.set_num_threads(1)
    return load_tiny()


@pytest.fixture(scope="module")
def record():
    return json.loads((tiny_model_path() / "training.json").read_text())


def test_folder_is_at_most_15_megabytes():
    assert sum(path.stat().st_size for path in tiny_model_path().rglob("*")) <= 15_000_000


def test_weights_are_those_of_the_record(record):
    digest = hashlib.sha256((tiny_model_path() / "model.safetensors").read_bytes()).hexdigest()
    assert digest == record["weights_sha256"]


def test_no_file_names_a_place_on_a_machine():
    for path in tiny_model_path().glob("*.json"):
        if path.name == "tokenizer.json":  # its vocabulary holds pieces of paths, and only those
            continue
        found = re.search(r'"(/|~/|[A-Z]:\\)[^"]*"', path.read_text())
        assert found is None, f"{path.name}: {found}"


def test_weights_are_stored_in_half_and_loaded_in_single_precision(tiny):
    from safetensors import safe_open

    with safe_open(tiny_model_path() / "model.safetensors", framework="pt") as weights:
        assert {str(weights.get_slice(name).get_dtype()) for name in weights.keys()} == {"F16"}
    assert {p.dtype for p in tiny[0].parameters()} == {torch.float32}


def test_shape_and_size(tiny, record):
    config = tiny[0].config
    assert (config.num_hidden_layers, config.num_experts, config.num_experts_per_tok) == (8, 32, 4)
    assert sum(p.numel() for p in tiny[0].parameters()) == record["parameters"]
    assert config.tie_word_embeddings


def test_loss_on_shipped_excerpts(tiny):
    from prescope.tiny._loss import validation_loss

    # one layer with its experts' down projections permuted gives 3.98
    assert validation_loss(tiny[0], heldout_streams(32)) == pytest.approx(3.866, abs=0.02)


def test_recorded_loss_meets_the_target(record):
    assert record["validation_loss"] <= 4.05


def test_loss_on_held_out_files_is_near_the_recorded_one(tiny, record):
    from prescope.tiny._loss import validation_loss

    # other Python versions have other files: near, not equal
    assert validation_loss(tiny[0], heldout_streams(16, length=256, source="stdlib")) == pytest.approx(
        record["validation_loss"], abs=0.5
    )


def test_generation_is_deterministic_and_ignores_left_padding(tiny):
    model, tokenizer = tiny
    texts = prompts(4, seed=1)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    assert batch["attention_mask"][:, -1].all() and not batch["attention_mask"].all()
    kwargs = {"max_new_tokens": 8, "do_sample": False}
    first = model.generate(**batch, **kwargs)
    assert torch.equal(first, model.generate(**batch, **kwargs))
    for row, text in zip(first, texts, strict=True):
        alone = model.generate(**tokenizer(text, return_tensors="pt"), **kwargs)[0]
        assert torch.equal(row[-8:], alone[-8:])


def test_routing_is_skewed_predictable_and_alive(tiny):
    from prescope.tiny._capture import capture_routing
    from prescope.tiny._recall import popularity_recall, previous_token_recall, stale_gate_recall, usage

    routing = capture_routing(tiny[0], heldout_streams(64))
    shares = usage(routing, experts=32)
    assert (shares > 0).all(), "an expert is never chosen"
    assert shares.max(1).values.mean() > 1.5 / 32
    blind = 4 / 32
    popularity = sum(popularity_recall(routing, shares)) / 8
    previous = sum(previous_token_recall(routing)) / 8
    stale = stale_gate_recall(tiny[0], routing, horizon=1)
    assert blind * 1.2 < popularity < previous < sum(stale) / 7


def test_tokenizer_gives_back_any_text(tiny):
    _, tokenizer = tiny
    text = "def f(x):\n\treturn {'ä': x}  # € 雪\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
    assert tokenizer.padding_side == "left"


def test_prompts_are_short_distinct_and_seeded(tiny):
    _, tokenizer = tiny
    chosen = prompts(96, seed=3)
    assert len(set(chosen)) == 96
    assert all(12 <= len(tokenizer.encode(text)) <= 24 for text in chosen)
    assert prompts(5, seed=3) == chosen[:5] != prompts(5, seed=4)


def test_prompts_come_from_held_out_files(record):
    from prescope.tiny._corpus import is_heldout
    from prescope.tiny._excerpts import read_excerpts

    recipe = record["recipe"]
    for excerpt in read_excerpts():
        assert is_heldout(excerpt.file, fraction=recipe["heldout_fraction"], seed=recipe["split_seed"])


def test_streams_have_the_asked_shape():
    assert heldout_streams(96).shape == (96, 64)
    assert heldout_streams(2, length=300, source="stdlib").shape == (2, 300)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prompts(0), "expected count in"),
        (lambda: prompts(97), r"expected count in \[1, 96\], got 97"),
        (lambda: heldout_streams(2, length=65), "source='stdlib'"),
        (lambda: heldout_streams(2, source="hub"), "got 'hub'"),
        (lambda: heldout_streams(10**6, source="stdlib"), "expected count in"),
    ],
)
def test_wrong_asks_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        load_tiny(path=tmp_path)
