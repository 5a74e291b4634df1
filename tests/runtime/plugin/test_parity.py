"""The plugged model says what the unplugged one says, wherever and whenever its experts ran."""

import pytest
import torch
from tiny_models import FAMILY_NAMES, prompts, random_model

from prescope.runtime.plugin import attach, expert_bytes
from prescope.solver.online import gate_policies


def memory(model, experts):
    return experts * expert_bytes(model)[2]


def engine(model, policy="dp", experts=8, slots=3, **kwargs):
    return attach(model, memory(model, experts), policy=policy, slots=slots, **{"backend": "sim", **kwargs})


def generate(model, inputs, **kwargs):
    with torch.no_grad():
        return model.generate(**inputs, **{"max_new_tokens": 6, "do_sample": False, **kwargs})


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("policy", gate_policies())
def test_logits_are_bit_identical_to_eager_without_padding(family, policy):
    model = random_model(family)
    inputs = prompts(4, 7, padded=False)
    with torch.no_grad():
        expected = model(**inputs).logits
        with engine(model, policy):
            got = model(**inputs).logits
    assert torch.equal(got, expected)


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("batch", [1, 2, 32])
def test_generated_tokens_are_equal_with_left_padding(family, batch):
    model = random_model(family)
    inputs = prompts(batch, 9)
    expected = generate(model, inputs)
    with engine(model):
        assert torch.equal(generate(model, inputs), expected)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_real_positions_are_close_in_low_precision(family):
    model = random_model(family, dtype=torch.bfloat16)
    inputs = prompts(5, 8)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        expected = model(**inputs).logits
        with engine(model):
            got = model(**inputs).logits
    torch.testing.assert_close(got[real].float(), expected[real].float(), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("implementation", ["eager", "grouped_mm", "batched_mm"])
def test_any_stock_implementation_is_matched_and_restored(implementation):
    model = random_model(implementation=implementation)
    inputs = prompts(3, 6, padded=False)
    with torch.no_grad():
        expected = model(**inputs).logits
        with engine(model):
            got = model(**inputs).logits
        again = model(**inputs).logits
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(again, expected)
    assert model.config._experts_implementation == implementation


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 3},
        {"num_beams": 2, "num_return_sequences": 2},
        {"do_sample": True, "top_k": 20, "num_return_sequences": 3},
        {"max_new_tokens": 1},
        {"use_cache": False},
        {"cache_implementation": "static"},
    ],
    ids=str,
)
def test_every_way_of_generating_gives_the_same_tokens(options):
    model = random_model()
    inputs = prompts(3, 6)
    torch.manual_seed(11)
    expected = generate(model, inputs, **options)
    with engine(model):
        torch.manual_seed(11)
        assert torch.equal(generate(model, inputs, **options), expected)


def test_finished_rows_are_neither_computed_nor_counted():
    model = random_model()
    inputs = prompts(6, 5, padded=False)
    free = generate(model, inputs, max_new_tokens=8, eos_token_id=None)
    # Declare the first new token of row 0 an end token: that row, and others like it, finish at once.
    end = int(free[0, 5])
    expected = generate(model, inputs, max_new_tokens=8, eos_token_id=end)
    alive = [int((expected[:, 5 : 5 + step] != end).all(dim=1).sum()) for step in range(8)]
    with engine(model) as served:
        assert torch.equal(generate(model, inputs, max_new_tokens=8, eos_token_id=end), expected)
        steps = served.report().steps
    assert [step.tokens for step in steps] == [30, *alive[1 : len(steps)]]
    assert alive[1] < 6


def test_an_end_token_in_a_plain_forward_pass_is_an_ordinary_token():
    model = random_model()
    inputs = prompts(2, 1, padded=False)
    inputs["input_ids"][:] = 5
    with torch.no_grad():
        expected = model(**inputs).logits
        with engine(model) as served:
            for _ in range(3):
                assert torch.equal(model(**inputs).logits, expected)
            assert {step.tokens for step in served.report().steps} == {2}


def test_padding_is_not_counted_and_an_all_padding_batch_passes():
    model = random_model()
    inputs = prompts(4, 5)
    with torch.no_grad(), engine(model) as served:
        model(**inputs)
        inputs["attention_mask"][:] = 0
        model(**inputs)
        first, second = served.report().steps
    assert (first.tokens, second.tokens, second.activated) == (5 + 4 + 3 + 2, 0, 0)


@pytest.mark.parametrize(
    ("experts", "held", "slots"),
    [(1, 1, 1), (6, 1, 1), (6, 18, 0), (6, 500, None), (6, 3, 3), (24, 4, 1)],
    ids=["one expert", "one slot", "no slot", "all resident", "slots only", "24 experts, one slot"],
)
@pytest.mark.parametrize("policy", gate_policies())
def test_extreme_shapes_and_budgets(experts, held, slots, policy):
    model = random_model(experts=experts)
    inputs = prompts(3, 6)
    expected = generate(model, inputs)
    with engine(model, policy, experts=held, slots=slots):
        assert torch.equal(generate(model, inputs), expected)


def test_the_disk_tier_computes_nothing_on_the_host():
    model = random_model()
    inputs = prompts(5, 6)
    expected = generate(model, inputs)
    for policy in gate_policies():
        with engine(model, policy, preset="olmoe-1b-7b@nvme-ram") as served:
            assert torch.equal(generate(model, inputs), expected)
            totals = served.report().totals()
        assert totals.cpu_tokens == 0
        assert totals.gpu_share == 1.0


def test_recorded_router_logits_are_those_of_the_stock_model():
    model = random_model()
    inputs = prompts(2, 5, padded=False)
    with torch.no_grad():
        expected = model(**inputs, output_router_logits=True).router_logits
        with engine(model):
            got = model(**inputs, output_router_logits=True).router_logits
    assert len(got) == len(expected) == 3
    assert all(torch.equal(ours, stock) for ours, stock in zip(got, expected, strict=True))
