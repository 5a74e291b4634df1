"""The parts of LLaPor on cases that can be worked out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prescope.predictor.llapor import LlaporSettings, train_llapor
from prescope.predictor.llapor.basis import fit_basis
from prescope.predictor.llapor.calibrate import batches_of, fit_logit_map
from prescope.predictor.llapor.features import chosen, selection_columns
from prescope.predictor.llapor.groups import layer_groups, layer_profile
from prescope.predictor.llapor.losses import balance, loss_of
from prescope.predictor.llapor.memory import HistoryMemory
from prescope.predictor.llapor.network import SourceNetwork, least_squares
from prescope.predictor.llapor.resume import read_progress
from prescope.predictor.llapor.settings import GroupSettings
from tests.support.hidden_traces import EXPERTS, LAYERS, SMALL, hidden_trace


@given(
    steps=st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=6),
    capacity=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_the_memory_holds_what_a_plain_one_of_unbounded_size_would(steps, capacity, seed):
    memory = HistoryMemory(history=3, trend=2, decay=0.7, capacity=capacity)
    generator = torch.Generator().manual_seed(seed)
    last, trend = {}, {}
    for names in steps:
        found = memory.recall(np.array(names, dtype=np.int64))
        for row, name in enumerate(names):
            known = name in last and name not in names[:row]
            assert found.known[row] == known
            assert found.last[row].tolist() == pytest.approx(last[name].tolist() if known else [0.0] * 3)
            assert found.trend[row].tolist() == pytest.approx(
                trend[name].tolist() if known else [0.0] * 2, abs=1e-5
            )
        now = torch.randn(len(names), 3, generator=generator)
        memory.remember(np.array(names, dtype=np.int64), now)
        assert len(memory._place) <= capacity
        for row, name in enumerate(names):
            trend[name] = 0.7 * trend.get(name, torch.zeros(2)) + 0.3 * now[row, :2]
            last[name] = now[row]
        if capacity < 6:
            # What is forgotten starts anew.
            last = {name: value for name, value in last.items() if name in memory._place}
            trend = {name: value for name, value in trend.items() if name in last}


def test_groups_are_the_runs_within_which_layers_are_alike():
    profile = np.array([[0.1, 0.2]] * 2 + [[0.6, 0.9]] * 5 + [[0.3, 0.7]])
    expected = ("near-input",) * 2 + ("middle",) * 5 + ("near-output",)
    assert layer_groups(profile) == expected
    assert layer_groups(profile[:2]) == ("middle", "middle")
    assert layer_groups(np.ones((3, 2))) == ("near-input", "middle", "near-output")
    assert layer_groups(np.zeros((0, 2))) == ()


def test_the_profile_tells_layers_that_follow_from_layers_that_do_not():
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(400, 5, generator=generator)
    ids = torch.rand(400, 3, 4, generator=generator).argsort(dim=2)[:, :, :1]
    ids[:, 1] = ids[:, 0]
    profile = layer_profile([first, first * 2, torch.randn(400, 5, generator=generator)], ids, 4)
    assert profile[0] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert (profile[1] < 0.2).all()


def test_components_without_compression_keep_the_channels_and_with_it_the_largest():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(500, 6, generator=generator) * torch.tensor([9.0, 5.0, 1.0, 0.1, 0.1, 0.1]) + 3
    whole = fit_basis([rows, rows], None, components=8, history=4, trend=9)
    assert whole.components == 6 and whole.history == 4 and whole.trend == 4
    assert whole.components_of(0, rows).pow(2).mean() == pytest.approx(1.0, rel=1e-3)
    few = fit_basis([rows, rows], None, components=2, history=0, trend=0)
    kept = few.components_of(1, rows).pow(2).sum() * (rows - rows.mean(0)).pow(2).mean()
    assert kept == pytest.approx(float((rows - rows.mean(0))[:, :2].pow(2).sum()), rel=0.01)
    history = sum(whole.history_part(layer, rows) for layer in range(2))
    assert history.var(dim=0, unbiased=False).tolist() == pytest.approx([1.0] * 4, rel=1e-2)


def test_tokens_are_known_by_what_they_showed_in_training():
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-2.0, 0.0]])
    basis = fit_basis([rows], torch.tensor([4, 4, 1]), components=2, history=0, trend=0)
    found = basis.token_components(torch.tensor([4, 1, 0, -1, 99]), 5)
    assert found[:, -1].tolist() == [1, 1, 0, 0, 0]
    assert found[0, 0] == pytest.approx(float(basis.components_of(0, rows)[0, 0]) * 2 / 2.5)
    assert not basis.token_components(None, 2).any()


def test_columns_of_a_choice():
    ids = torch.tensor([[0, 3], [2, -1]])
    size = (0.5 * 0.5) ** 0.5
    columns = selection_columns(ids, torch.tensor([[3.0, 1.0], [5.0, 0.0]]), 4)
    assert columns[0].tolist() == pytest.approx([1 / size, 0, 0, 1 / size, 1.5 / size, 0, 0, 0.5 / size])
    assert columns[1].tolist() == pytest.approx([0, 0, 1 / size, 0, 0, 0, 2 / size, 0])
    assert selection_columns(ids, None, 4)[0, 4:].tolist() == [0] * 4
    assert chosen(ids, 4).tolist() == [[1, 0, 0, 1], [0, 0, 1, 0]]


def test_rare_experts_weigh_more_and_easy_ones_less():
    weights = balance(torch.tensor([[0.5, 0.25, 0.001]]))
    assert weights.mean() == pytest.approx(1.0) and (weights[0].diff() > 0).all()
    logits, targets = torch.tensor([[[3.0, -3.0, 0.0]]]), torch.tensor([[[1.0, 0.0, 1.0]]])
    plain = loss_of("bce", logits, targets, torch.ones(1, 3))
    focal = loss_of("balanced-focal", logits, targets, torch.ones(1, 3))
    hard = -np.log(0.5) * 0.25
    assert plain == pytest.approx(2 * np.log1p(np.exp(-3)) + np.log(2), rel=1e-5)
    assert focal == pytest.approx(hard, rel=0.01)


def test_logits_are_mapped_to_what_happens():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20_000, generator=generator) * 3
    happened = (torch.rand(20_000, generator=generator) < torch.sigmoid(0.5 * logits - 1.0)).float()
    scale, offset = fit_logit_map(logits, happened)
    assert (scale, offset) == pytest.approx((0.5, -1.0), abs=0.05)
    never = fit_logit_map(logits, torch.zeros_like(logits))
    assert never[0] > 0 and never[1] < -2


def test_rescaling_changes_the_answer_and_nothing_else():
    group = GroupSettings(kind="gated", hidden=5)
    network = SourceNetwork(
        inputs=7, main=3, horizons=2, experts=4, group=group, generator=torch.Generator().manual_seed(0)
    )
    network.start_from(torch.randn(8, 3), torch.randn(8))
    rows = torch.randn(6, 7)
    before = network(rows).detach()
    network.rescale(torch.tensor([2.0, 0.5]), torch.tensor([1.0, -1.0]))
    expected = before * torch.tensor([2.0, 0.5])[:, None] + torch.tensor([1.0, -1.0])[:, None]
    assert torch.allclose(network(rows), expected, atol=1e-5)


def test_least_squares_finds_a_linear_rule():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2000, 4, generator=generator)
    targets = (rows[:, :1] > 0).float()
    weights, bias = least_squares(rows, targets)
    assert ((rows @ weights.T + bias > 0).float() == targets).float().mean() > 0.9


def test_batches_take_rows_of_several_sequences():
    sizes = [len(rows) for rows in batches_of((3, 5, 4), seed=1, rounds=3)]
    assert sizes == [2] * 3 + [4] * 3 + [8] * 3 + [16] * 3 + [32] * 3 + [64] * 3
    assert all((rows >= 0).all() and (rows < 12).all() for rows in batches_of((3, 5, 4), seed=1))


class Stop(Exception):
    pass


def test_an_interrupted_training_goes_on_to_the_same_result(tmp_path):
    trace, settings = hidden_trace(), replace(SMALL, horizons=2, patience=5)
    whole = train_llapor(trace, settings=settings, workers=2)

    def stop(report):
        if report.source == 1 and report.epoch == 2:
            raise Stop

    with pytest.raises(Stop):
        train_llapor(trace, settings=settings, partial=tmp_path, progress=stop)
    seen = []
    again = train_llapor(
        trace,
        settings=settings,
        partial=tmp_path,
        progress=lambda report: seen.append((report.source, report.epoch)),
    )
    assert (0, 3) not in seen and (1, 2) not in seen and (1, 3) in seen
    for one, other in zip(whole.networks, again.networks, strict=True):
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name
    assert np.array_equal(whole.correction, again.correction)


def test_a_damaged_state_is_refused(tmp_path):
    path = tmp_path / "source-0.safetensors"
    train_llapor(hidden_trace(), settings=replace(SMALL, epochs=1), partial=tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    network = torch.nn.Linear(1, 1)
    with pytest.raises(ValueError, match="remove the file to train that part again"):
        read_progress(path, network, torch.optim.AdamW(network.parameters()), torch.Generator())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lambda: LlaporSettings(decay=1.0), "expected decay and forget in"),
        (lambda: LlaporSettings(trend=300), "expected trend in"),
        (lambda: LlaporSettings(epochs=0), "expected epochs in"),
        (lambda: GroupSettings(kind="deep", hidden=3), "expected a known kind"),
        (lambda: GroupSettings(kind="gated", hidden=3, dropout=1.0), "dropout in"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        settings()


def test_a_linear_predictor_needs_no_hidden_layer():
    linear = GroupSettings(kind="gated", hidden=0)
    model = train_llapor(hidden_trace(), settings=replace(SMALL, outer=linear, middle=linear, epochs=1))
    assert len(model.networks) == LAYERS and model.networks[0].experts == EXPERTS
