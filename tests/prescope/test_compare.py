"""Policies side by side on a random model: same tokens, same conditions, honest fields."""

from dataclasses import replace

import msgspec
import pytest
import torch
from json_contract import Run
from tiny_models import END, random_model
from toy_tokenizer import ToyTokenizer

from prescope.compare import DEFAULT_POLICIES, CompareSettings, Comparison, compare
from prescope.compare.generation import Generated, encode, generate
from prescope.compare.row import Row
from prescope.formulation import evaluate
from prescope.inspection import recorded_view, waterfall
from prescope.report import comparison_heading, comparison_markdown, comparison_table

PROMPTS = ["some words", "a", "longer than the others"]
OTHERS = ["other text", "and more"]
SETTINGS = CompareSettings(backend="sim", slots=3, new_tokens=4)


def run(settings: CompareSettings, model: object = None) -> Comparison:
    return compare(model or random_model(), ToyTokenizer(), PROMPTS, OTHERS, settings, name="random")


@pytest.fixture(scope="module")
def causal() -> Comparison:
    return run(SETTINGS)


@pytest.fixture(scope="module")
def clairvoyant() -> Comparison:
    return run(replace(SETTINGS, clairvoyant=True))


def test_every_policy_gives_the_stock_models_tokens(causal: Comparison, clairvoyant: Comparison) -> None:
    for result in (causal, clairvoyant):
        assert [row.policy for row in result.rows] == list(DEFAULT_POLICIES)
        assert all(row.tokens_equal for row in result.rows)
        assert {row.batch for row in result.rows} == {3}


def test_conditions_are_the_same_for_all(causal: Comparison, clairvoyant: Comparison) -> None:
    assert {row.predictor for row in causal.rows} == {"stale-gate"}
    assert {row.predictor for row in clairvoyant.rows} == {"oracle"}
    # The work is the same, only where it is done differs.
    assert len({row.totals.activated for row in (*causal.rows, *clairvoyant.rows)}) == 1
    assert len({row.totals.tokens for row in (*causal.rows, *clairvoyant.rows)}) == 1
    # 3 layers of 6 experts: a quarter resident.
    assert (causal.residents, causal.experts, causal.slots) == (4, 18, 3)


def test_policies_do_what_their_names_say(causal: Comparison) -> None:
    rows = {row.policy: row.totals for row in causal.rows}
    assert rows["cpu-only"].bytes_moved == 0
    assert rows["on-demand"].cpu_tokens == 0 and rows["on-demand"].bytes_moved > 0
    assert rows["on-demand"].prefetch_useful == rows["intra-layer"].prefetch_useful == 0
    assert rows["intra-layer"].planned_ns <= min(rows["on-demand"].planned_ns, rows["cpu-only"].planned_ns)


def test_virtual_time_agrees_with_the_evaluator(causal: Comparison, clairvoyant: Comparison) -> None:
    for row in (*causal.rows, *clairvoyant.rows):
        assert row.totals.planned_ns == row.totals.simulated_ns
        assert row.executed_ns is None and row.dilation == 1.0 and row.refused is None


def test_recordings_are_legal_runs(causal: Comparison) -> None:
    for row in causal.rows:
        steps = row.recording.steps
        assert [step.phase for step in steps] == ["prefill", "decode", "decode", "decode"]
        assert row.recording.facts["policy"] == row.policy
        assert sum(step.schedules["simulated"].makespan_ns for step in steps) == row.simulated_ns
        for step in steps:
            # The judge agrees with what was recorded.
            assert step.schedules["planned"] == evaluate(step.instance, step.plan)
            found = waterfall(recorded_view(step))
            assert found is not None and sum(part.ns for part in found.parts) == found.makespan_ns


def test_known_demand_is_planned_at_least_as_well(clairvoyant: Comparison) -> None:
    rows = {row.policy: row.totals for row in clairvoyant.rows}
    assert rows["dp"].simulated_ns <= 1.001 * rows["presched"].simulated_ns
    assert rows["dp"].prefetch_wasted == 0


def test_the_document_keeps_the_contract(causal: Comparison, clairvoyant: Comparison) -> None:
    for result in (causal, clairvoyant):
        document = msgspec.convert(msgspec.json.decode(msgspec.json.encode(result.document())), Run)
        row, source = document.rows[-1], result.rows[-1]
        assert row.phases.prefill.planned_ns + row.phases.decode.planned_ns == row.planned_ns
        assert row.phases.prefill.steps == 1 and row.phases.decode.steps == source.totals.steps - 1
        assert row.tokens_per_s == pytest.approx(source.new_tokens / row.simulated_ns * 1e9)
        assert row.link == 24_000_000_000


def test_tables_show_every_policy(causal: Comparison) -> None:
    markdown = comparison_markdown(causal)
    assert [line.split(" | ")[0].strip("| ") for line in markdown.splitlines()[2:]] == list(DEFAULT_POLICIES)
    assert comparison_table(causal).row_count == len(DEFAULT_POLICIES)
    assert "4 of 18 experts resident + 3 slots" in comparison_heading(causal)


def test_a_row_that_must_not_be_quoted_is_not(causal: Comparison) -> None:
    totals = replace(causal.rows[0].totals, executed_ns=123)
    row = replace(causal.rows[0], totals=totals)
    assert row.executed_ns == 123
    refused: Row = replace(row, refused="too many overran")
    assert refused.executed_ns is None and refused.document()["executed_ns"] is None
    assert refused.tokens_per_s == pytest.approx(refused.new_tokens / totals.simulated_ns * 1e9)


def test_different_tokens_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that computes something else must not pass for equal."""
    from prescope.runtime.plugin import expert_math

    honest = expert_math.run_expert
    monkeypatch.setattr(expert_math, "run_expert", lambda *arguments: -honest(*arguments))
    result = run(replace(SETTINGS, policies=("dp",)))
    assert not result.rows[0].tokens_equal
    assert "DIFFERENT" in comparison_markdown(result)


def test_only_real_positions_count() -> None:
    tokens = torch.tensor([[7, END, 0, 0], [7, 8, 9, END]])
    real = torch.tensor([[True, True, False, False], [True] * 4])
    base = Generated(tokens=tokens, real=real)
    other_padding = tokens.clone()
    other_padding[0, 2:] = 42
    assert base.equals(Generated(tokens=other_padding, real=real))
    for place in ((0, 0), (0, 1), (1, 3)):
        changed = tokens.clone()
        changed[place] = 42
        assert not base.equals(Generated(tokens=changed, real=real))
    assert not base.equals(Generated(tokens=tokens, real=torch.ones_like(real)))


def test_rows_end_with_their_end_token() -> None:
    model, inputs = random_model(), encode(ToyTokenizer(), PROMPTS)
    free = generate(model, inputs, 6)
    # Make its first token the end token: what follows is no longer real.
    model.generation_config.eos_token_id = int(free.tokens[0, 0])
    ended = generate(model, inputs, 6)
    assert ended.real[0].tolist() == [True] + [False] * (ended.real.shape[1] - 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": ()}, "at least one, got none"),
        ({"policies": ("dp", "dp")}, "distinct policies"),
        ({"new_tokens": 0}, "expected new_tokens"),
        ({"resident_share": 1.5}, r"expected resident_share in \[0, 1\]"),
        ({"dilation": 0.5}, "expected dilation >= 1"),
        ({"dilation": float("nan")}, "expected dilation >= 1"),
        ({"lookahead": -1}, "expected lookahead"),
        ({"backend": "tpu"}, "expected a backend among cpu, sim, got 'tpu'"),
        ({"time_budget_s": 0.0}, "expected time_budget_s > 0"),
    ],
)
def test_settings_are_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": ("magic",)}, "'magic'"),
        ({"preset": "no-such@machine"}, "no-such"),
        ({"predictor": "crystal-ball"}, "crystal-ball"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_stays(changes: dict[str, object], message: str) -> None:
    model = random_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        run(replace(SETTINGS, **changes), model)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_prompts_are_checked() -> None:
    with pytest.raises(ValueError, match="at least one prompt"):
        encode(ToyTokenizer(), [])
    with pytest.raises(ValueError, match="'' in place 1"):
        encode(ToyTokenizer(), ["a", ""])


def test_a_row_names_files_though_its_rule_names_a_path(causal: Comparison) -> None:
    row = replace(causal.rows[0], retention="learned:/a folder/routing.npz")
    assert row.label == f"{row.policy}, learned:/a folder/routing.npz"
    assert row.file_label == f"{row.policy}-learned-a-folder-routing.npz"
