"""Calls off the beaten track: odd masks and caches, every way to pass options, modes of torch."""

import pytest
import torch
from tiny_models import prompts, random_model

from prescope.runtime.plugin import attach, expert_bytes


def engine(model, **kwargs):
    return attach(model, 8 * expert_bytes(model)[2], **{"backend": "sim", "slots": 3, **kwargs})


def logits(model, inputs, **kwargs):
    with torch.no_grad():
        return model(**inputs, **kwargs).logits


def tokens_per_step(model, **kwargs):
    with engine(model) as served:
        out = model.generate(**{"max_new_tokens": 6, "do_sample": False, **kwargs})
        return out, [step.tokens for step in served.report().steps]


def first_new_token(model, inputs):
    """A token that greedy decoding emits first in some rows, and not in all."""
    free = model.generate(**inputs, max_new_tokens=8, do_sample=False, eos_token_id=None)
    return int(free[0, inputs["input_ids"].shape[1]])


def test_padding_under_a_static_cache_is_not_counted():
    model = random_model()
    inputs = prompts(4, 5)
    _, counts = tokens_per_step(model, **inputs, max_new_tokens=4, cache_implementation="static")
    assert counts == [14, 4, 4, 4]


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_masks_of_all_forms_show_the_padding_and_nothing_else(implementation):
    model = random_model()
    model.set_attn_implementation(implementation)
    inputs = prompts(3, 5)
    causal = torch.ones(5, 5, dtype=torch.bool).tril() & inputs["attention_mask"].bool()[:, None, None, :]
    positions = (inputs["attention_mask"].cumsum(1) - 1).clip(0)
    floats = torch.zeros(3, 1, 5, 5).masked_fill(~causal, torch.finfo(torch.float32).min)
    real = inputs["attention_mask"].bool()
    for mask in [floats, causal] if implementation == "sdpa" else [floats]:
        call = {"input_ids": inputs["input_ids"], "attention_mask": mask, "position_ids": positions}
        expected = logits(model, call)
        with engine(model) as served:
            got = logits(model, call)
            torch.testing.assert_close(got[real], expected[real], atol=1e-5, rtol=1e-5)
            assert served.report().steps[0].tokens == 12


def test_a_mask_as_long_as_a_static_cache_is_read_where_the_tokens_are():
    from transformers import StaticCache

    model = random_model()
    ids = prompts(3, 6, padded=False)["input_ids"]

    def two_passes():
        cache = StaticCache(config=model.config, max_cache_len=12)
        mask = torch.zeros(3, 12, dtype=torch.long)
        outputs = []
        for begin, end in ((0, 5), (5, 6)):
            mask[:, begin:end] = 1
            call = {"input_ids": ids[:, begin:end], "attention_mask": mask.clone()}
            outputs.append(logits(model, call, past_key_values=cache))
        return outputs

    expected = two_passes()
    with engine(model):
        assert all(map(torch.equal, two_passes(), expected))


def test_without_a_cache_finished_rows_are_not_computed():
    model = random_model()
    inputs = prompts(6, 5, padded=False)
    options = {"max_new_tokens": 8, "eos_token_id": first_new_token(model, inputs)}
    expected, cached = tokens_per_step(model, **inputs, **options)
    got, counts = tokens_per_step(model, **inputs, **options, use_cache=False)
    assert torch.equal(got, expected)
    # Every step feeds the alive rows' whole sequences.
    assert counts == [30, *(alive * (5 + step) for step, alive in enumerate(cached[1:], start=1))]
    assert cached[1] < 6


def test_prompts_of_one_token_and_embeddings_generate_the_same():
    model = random_model()
    ends = {"eos_token_id": 7, "max_new_tokens": 5, "do_sample": False}
    single = {
        "input_ids": torch.tensor([[7], [8], [9]]),
        "attention_mask": torch.ones(3, 1, dtype=torch.long),
    }
    inputs = prompts(3, 5)
    embedded = {
        "inputs_embeds": model.get_input_embeddings()(inputs["input_ids"]).detach(),
        "attention_mask": inputs["attention_mask"],
    }
    for call in (single, embedded):
        for cache in (True, False):
            expected = model.generate(**call, **ends, use_cache=cache)
            with engine(model):
                assert torch.equal(model.generate(**call, **ends, use_cache=cache), expected)


def test_a_prompt_fed_in_chunks_may_hold_end_tokens():
    model = random_model()
    inputs = prompts(3, 5, padded=False)
    inputs["input_ids"][1, 4] = 7
    options = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": 7, "prefill_chunk_size": 4}
    expected = model.generate(**inputs, **options)
    assert torch.equal(tokens_per_step(model, **inputs, **options)[0], expected)


def test_guidance_passes_between_steps_finish_no_row():
    model = random_model()
    inputs = prompts(1, 5, padded=False)
    inputs["input_ids"][0, 4] = 7
    options = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": 7, "guidance_scale": 1.5}
    expected = model.generate(**inputs, **options)
    assert torch.equal(tokens_per_step(model, **inputs, **options)[0], expected)


@pytest.mark.parametrize("where", ["position", "keyword", "model"])
def test_end_tokens_are_those_generate_will_use(where):
    from transformers import GenerationConfig

    model = random_model()
    inputs = prompts(6, 5, padded=False)
    end = first_new_token(model, inputs)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    common = {"max_new_tokens": 8, "do_sample": False}

    def run(other):
        # The model names one end token, the call another: only the call's counts.
        model.generation_config.eos_token_id = end if where == "model" else other
        given = GenerationConfig(**common, eos_token_id=None if where == "model" else end)
        if where == "position":
            return model.generate(ids, given, attention_mask=mask)
        return model.generate(ids, generation_config=given, attention_mask=mask)

    # An end token of the model's that the call replaces must not stop rows that emit it.
    other = int(run(94)[-1, -1])
    expected = run(other)
    with engine(model) as served:
        assert torch.equal(run(other), expected)
        assert served.report().steps[1].tokens == int((expected[:, 5] != end).sum()) < 6


def test_beams_asked_for_by_the_models_own_config_are_seen():
    from transformers import GenerationConfig

    model = random_model()
    model.generation_config.num_beams = 3
    inputs = prompts(2, 5)
    options = GenerationConfig(max_new_tokens=8, do_sample=False, eos_token_id=list(range(0, 96, 3)))
    expected = model.generate(**inputs, generation_config=options)
    with engine(model) as served:
        assert torch.equal(model.generate(**inputs, generation_config=options), expected)
        assert {step.tokens for step in served.report().steps[1:]} == {6}


@pytest.mark.parametrize("attached", ["target", "assistant", "both"])
def test_assisted_generation_gives_the_same_tokens(attached):
    target, assistant = random_model(), random_model(layers=1)
    inputs = prompts(1, 6, padded=False)
    options = {"max_new_tokens": 8, "do_sample": False, "assistant_model": assistant}
    expected = target.generate(**inputs, **options)
    engines = [
        engine(model)
        for name, model in (("target", target), ("assistant", assistant))
        if attached in (name, "both")
    ]
    assert torch.equal(target.generate(**inputs, **options), expected)
    for served in engines:
        served.detach()


def test_two_engines_serve_their_own_models():
    one, two = random_model(), random_model("mixtral", layers=2)
    inputs = prompts(3, 5, padded=False)
    expected = logits(one, inputs), logits(two, inputs)
    with engine(one) as first, engine(two) as second:
        assert torch.equal(logits(two, inputs), expected[1])
        assert torch.equal(logits(one, inputs), expected[0])
        second.detach()
        assert torch.equal(logits(one, inputs), expected[0])
        assert torch.equal(logits(two, inputs), expected[1])
        assert len(first.report().steps) == 2


@pytest.mark.parametrize("backend", ["sim", "cpu"])
def test_inference_mode_around_attach_and_detach_leaves_ordinary_weights(backend):
    model = random_model()
    inputs = prompts(3, 5, padded=False)
    expected = logits(model, inputs)
    with torch.inference_mode():
        served = engine(model, backend=backend)
        assert torch.equal(model(**inputs).logits, expected)
    assert torch.equal(logits(model, inputs), expected)
    with torch.inference_mode():
        assert torch.equal(model(**inputs).logits, expected)
        served.detach()
    model(**inputs).logits.sum().backward()
    assert model.model.layers[0].mlp.experts.down_proj.grad is not None


@pytest.mark.parametrize("backend", ["sim", "cpu"])
def test_autocast_reaches_the_experts_wherever_they_run(backend):
    model = random_model()
    inputs = prompts(3, 5, padded=False)
    with torch.autocast("cpu", torch.bfloat16):
        expected = logits(model, inputs)
        with engine(model, backend=backend):
            assert torch.equal(logits(model, inputs), expected)


@pytest.mark.parametrize("family", ["qwen3_moe", "mixtral", "olmoe"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_low_precision_is_bit_identical_without_padding(family, dtype):
    model = random_model(family, dtype=dtype)
    inputs = prompts(3, 5, padded=False)
    expected = logits(model, inputs)
    with engine(model):
        assert torch.equal(logits(model, inputs), expected)


def test_rows_keep_their_sequence_until_another_batch_begins():
    import torch

    from prescope.runtime.plugin.rows import ForwardCall, RowTracker

    def call(ids, mask=None, past=0):
        ids = torch.tensor(ids)
        return ForwardCall(ids=ids, mask=mask, batch=ids.shape[0], tokens=ids.shape[1], past=past)

    rows = RowTracker()
    rows.begin_forward(call([[0, 5], [6, 7]], torch.tensor([[0, 1], [1, 1]])))
    real = rows.real_rows(4)
    assert rows.sequences(real).tolist() == [0, 1, 1] and rows.token_ids(real).tolist() == [5, 6, 7]
    rows.begin_forward(call([[8], [9]], past=2))
    assert rows.sequences(rows.real_rows(2)).tolist() == [0, 1]
    rows.begin_forward(call([[8], [9]], past=0))
    assert rows.sequences(rows.real_rows(2)).tolist() == [2, 3]
    rows.begin_forward(call([[8], [9], [1]], past=5))
    assert rows.sequences(rows.real_rows(3)).tolist() == [4, 5, 6]
