"""Parts of the recipe: the split by file, the losses, the optimiser's step, whole checkpoints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.tiny._batches import batches, sequences
from prescope.tiny._corpus import is_heldout, load_corpus, stdlib_names
from prescope.tiny._recipe import ModelShape, Recipe

torch = pytest.importorskip("torch")


def test_the_split_is_by_file_and_leaves_out_other_packages():
    names = stdlib_names()
    assert "argparse.py" in names and names == sorted(names)
    assert not any("site-packages" in name or name.startswith(("test/", "encodings/")) for name in names)
    assert not any("_sysconfigdata" in name for name in names)
    corpus = load_corpus(heldout_fraction=0.2, split_seed=5, train_bytes=50_000)
    assert all(is_heldout(file.name, fraction=0.2, seed=5) for file in corpus.heldout)
    assert not any(is_heldout(file.name, fraction=0.2, seed=5) for file in corpus.train)


def test_names_do_not_depend_on_where_the_library_lies(tmp_path):
    for name in ("a.py", "b/c.py", "site-packages/d.py", "test/e.py", "_sysconfigdata_x.py", "f.txt"):
        path = tmp_path / "test" / "lib" / name  # a folder above the root may be called anything
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    assert stdlib_names(tmp_path / "test" / "lib") == ["a.py", "b/c.py"]


def test_an_empty_library_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one file in each part"):
        load_corpus(root=tmp_path)


@given(st.text(min_size=1), st.integers(0, 9), st.floats(0.01, 0.98))
def test_a_larger_fraction_holds_out_more(name, seed, fraction):
    if is_heldout(name, fraction=fraction, seed=seed):
        assert is_heldout(name, fraction=fraction + 0.01, seed=seed)


def test_the_fraction_is_kept_and_the_seed_matters():
    names = [f"{number}.py" for number in range(2000)]
    held = [{name for name in names if is_heldout(name, fraction=0.1, seed=seed)} for seed in (0, 1)]
    assert all(150 < len(part) < 250 for part in held) and len(held[0] & held[1]) < 50


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 12), st.integers(0, 99))
def test_sequences_use_every_token_but_a_rest(sizes, length, seed):
    starts = np.cumsum([0, *sizes])
    streams = [np.arange(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    total = sum(sizes)
    if total < length:
        with pytest.raises(ValueError, match="tokens of text"):
            sequences(streams, length=length, rng=np.random.default_rng(seed))
        return
    rows = sequences(streams, length=length, rng=np.random.default_rng(seed))
    assert rows.shape == (total // length, length)
    assert len(set(rows.ravel().tolist())) == rows.size


def test_batches_repeat_with_the_seed():
    streams = [np.arange(500)]

    def first(seed):
        stream = batches(streams, count=2, length=16, rng=np.random.default_rng(seed))
        return np.stack([next(stream) for _ in range(40)])

    assert np.array_equal(first(1), first(1)) and not np.array_equal(first(1), first(2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ModelShape(vocab=100),
        lambda: ModelShape(top_k=33),
        lambda: ModelShape(heads=4, kv_heads=3),
        lambda: ModelShape(layers=0),
        lambda: Recipe(steps=0),
        lambda: Recipe(matrix_rate=0.0),
        lambda: Recipe(warmup_fraction=1.0),
        lambda: Recipe(sequence_tokens=4096),
        lambda: Recipe(seed=-1),
    ],
)
def test_wrong_recipes_are_refused(make):
    with pytest.raises(ValueError, match=r"expected .* got"):
        make()


def test_schedule_rises_then_falls_to_the_final_fraction():
    from prescope.tiny._training import schedule

    recipe = Recipe(warmup_fraction=0.1, final_fraction=0.05)
    values = [schedule(fraction, recipe) for fraction in np.linspace(0, 1, 101)]
    assert 0 < values[0] < 0.05 and max(values) == values[10] == 1.0
    assert values[:11] == sorted(values[:11]) and values[10:] == sorted(values[10:], reverse=True)
    assert values[-1] == pytest.approx(0.05)


def test_balance_loss_is_one_when_uniform_and_counts_each_layer():
    from prescope.tiny._loss import balance_loss

    eye = 10.0 * torch.eye(4)
    assert float(balance_loss([eye], top_k=1)) == pytest.approx(1.0, abs=1e-5)
    collapsed = [torch.tensor([[10.0, 0, 0, 0]]).repeat(4, 1), torch.tensor([[0, 10.0, 0, 0]]).repeat(4, 1)]
    assert float(balance_loss(collapsed, top_k=1)) == pytest.approx(4.0, rel=1e-2)


@pytest.mark.parametrize("shape", [(8, 8), (3, 6, 12), (3, 12, 6)])
def test_orthogonalise_evens_out_the_singular_values(shape):
    from prescope.tiny._muon import orthogonalise

    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 50
    before, after = torch.linalg.svdvals(matrices), torch.linalg.svdvals(orthogonalise(matrices))
    assert after.max() < 1.3
    assert (after.amax(-1) / after.amin(-1) < before.amax(-1) / before.amin(-1)).all()
    wide = matrices[..., : min(shape[-2:]), :]
    assert orthogonalise(wide).shape == wide.shape


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 6))
def test_recall_matches_counting_by_hand(seed, k, m):
    from prescope.tiny._recall import recall

    rng = np.random.default_rng(seed)
    chosen = np.stack([rng.permutation(8)[:k] for _ in range(5)])
    predicted = np.stack([rng.permutation(8)[:m] for _ in range(5)])
    by_hand = np.mean([len(set(c) & set(p)) / k for c, p in zip(chosen, predicted, strict=True)])
    assert recall(torch.from_numpy(predicted), torch.from_numpy(chosen)) == pytest.approx(by_hand)


def test_an_interrupted_save_leaves_nothing(tmp_path):
    from prescope.tiny._checkpoint import _whole_folder

    with pytest.raises(KeyboardInterrupt), _whole_folder(tmp_path / "model") as partial:
        (partial / "half").write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_training_writes_nothing_and_says_so(tmp_path, monkeypatch):
    import typer
    from typer.testing import CliRunner

    from prescope.tiny import _training
    from prescope.tiny.train import train_command

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_training, "train", interrupted)
    app = typer.Typer()
    app.command()(train_command)
    result = CliRunner().invoke(app, ["-o", str(tmp_path / "model")])
    assert result.exit_code == 130 and "was not written" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_not_replaced_unasked(tmp_path):
    from prescope.tiny._checkpoint import refuse_existing

    with pytest.raises(FileExistsError, match="overwrite"):
        refuse_existing(tmp_path, overwrite=False)
    with pytest.raises(FileExistsError, match=r"training\.json"):
        refuse_existing(tmp_path, overwrite=True)  # not a checkpoint: never removed
