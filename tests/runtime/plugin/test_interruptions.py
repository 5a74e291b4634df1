"""An engine when things go otherwise: interrupts, other threads, failures, copies, what does not fit."""

import copy
import gc
import threading
import weakref

import numpy as np
import pytest
import torch
from tiny_models import prompts, random_model

from prescope.predictor import Oracle, Popularity, PreviousStep
from prescope.runtime.plugin import AttachError, attach, expert_bytes


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


def test_an_interrupt_in_the_dense_part_does_not_lock_the_engine():
    model = random_model()
    inputs = prompts(2, 5, padded=False)
    expected = logits(model, inputs)

    def interrupt(*args):
        raise KeyboardInterrupt

    with engine(model) as served:
        for _ in range(2):
            handle = model.model.layers[1].register_forward_pre_hook(interrupt)
            with pytest.raises(KeyboardInterrupt):
                logits(model, inputs)
            handle.remove()
            assert torch.equal(logits(model, inputs), expected)
        handle = model.model.layers[1].register_forward_pre_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            logits(model, inputs)
        handle.remove()
        served.detach()
    assert torch.equal(logits(model, inputs), expected)


def test_a_second_thread_may_not_generate_between_the_steps_of_the_first():
    from transformers import StoppingCriteria

    model = random_model()
    inputs = prompts(3, 5)
    expected = model.generate(**inputs, max_new_tokens=5, do_sample=False)
    errors = []

    class Intruder(StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            for call in (lambda: model.generate(**inputs), lambda: logits(model, inputs)):
                thread = threading.Thread(target=lambda call=call: errors.append(_error(call)))
                thread.start()
                thread.join()
            return torch.zeros(input_ids.shape[0], dtype=torch.bool)

    with engine(model):
        got = model.generate(**inputs, max_new_tokens=5, do_sample=False, stopping_criteria=[Intruder()])
        assert torch.equal(got, expected)
        assert torch.equal(model.generate(**inputs, max_new_tokens=5, do_sample=False), expected)
        # Once it is over, any thread may be next.
        thread = threading.Thread(target=lambda: errors.append(_error(lambda: logits(model, inputs))))
        thread.start()
        thread.join()
    assert len(errors) == 11
    assert errors.pop() is None
    assert all("expected one generate at a time" in str(error) for error in errors)


def test_a_generate_inside_another_leaves_the_outer_ones_rows_alone():
    from transformers import StoppingCriteria

    model = random_model()
    inputs = prompts(6, 5, padded=False)
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": first_new_token(model, inputs)}
    expected, counts = tokens_per_step(model, **inputs, **options)

    class Nested(StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            model.generate(**prompts(2, 3), max_new_tokens=1, do_sample=False)
            return torch.zeros(input_ids.shape[0], dtype=torch.bool)

    got, nested = tokens_per_step(model, **inputs, **options, stopping_criteria=[Nested()])
    assert torch.equal(got, expected)
    assert nested[::2] == counts


def _error(call):
    try:
        call()
    except RuntimeError as error:
        return error
    return None


def test_detach_in_the_middle_of_generate_goes_on_with_the_stock_model():
    from transformers import StoppingCriteria

    model = random_model()
    inputs = prompts(3, 5, padded=False)
    expected = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    served = engine(model)

    class Detach(StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            if input_ids.shape[1] == 8:
                served.detach()
            return torch.zeros(input_ids.shape[0], dtype=torch.bool)

    got = model.generate(**inputs, max_new_tokens=6, do_sample=False, stopping_criteria=[Detach()])
    assert torch.equal(got, expected)
    assert len(served.report().steps) == 3


def test_a_backend_that_fails_to_close_does_not_keep_the_weights():
    model = random_model()
    inputs = prompts(2, 4, padded=False)
    expected = logits(model, inputs)
    served = engine(model)

    def broken():
        raise OSError("cannot close")

    served.serving.backend.close = broken
    with pytest.raises(OSError, match="cannot close"):
        served.detach()
    assert torch.equal(logits(model, inputs), expected)
    assert model.config._experts_implementation == "eager"


def test_a_failed_step_is_not_recorded_wherever_it_fails():
    model = random_model()
    inputs = prompts(3, 5, padded=False)
    with engine(model, record=True) as served:
        submit = served.serving.backend.submit
        for failing_wave in (0, 2):
            waves = []

            def failing(ops, work=None, predict=None, waves=waves, failing_wave=failing_wave):
                waves.append(ops)
                if len(waves) == failing_wave + 1:
                    raise ArithmeticError("broken")
                return submit(ops, work, predict)

            served.serving.backend.submit = failing
            with pytest.raises(ArithmeticError):
                logits(model, inputs)
        served.serving.backend.submit = submit
        logits(model, inputs)
        assert len(served.step_counts()) == len(served.report().steps) == 1
        assert served.routing().topk_ids.shape[0] == 15


def test_copies_and_checkpoints_of_an_attached_model_are_refused(tmp_path):
    model = random_model()
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    with engine(model):
        with pytest.raises(TypeError, match="expected a detached model to copy"):
            copy.deepcopy(model)
        for call in (
            model.state_dict,
            lambda: model.save_pretrained(tmp_path),
            lambda: model.load_state_dict(weights),
        ):
            with pytest.raises(RuntimeError, match="expected a detached model to save or load"):
                call()
    model.load_state_dict(weights)
    model.save_pretrained(tmp_path)
    assert torch.equal(copy.deepcopy(model).lm_head.weight, model.lm_head.weight)


def test_a_compiled_model_is_refused():
    model = random_model()
    model.model.compile(backend="eager")
    with pytest.raises(AttachError, match="expected an uncompiled model, got 'model' after compile"):
        engine(model)


def test_a_config_forgotten_while_attached_gives_its_id_to_no_other():
    from prescope.runtime.plugin import registration

    model = random_model()
    key, config = id(model.config), weakref.ref(model.config)
    engine(model)
    del model
    gc.collect()
    assert config() is not None or key not in registration._implementation_before


def test_recorded_passes_without_a_past_are_sequences_of_their_own():
    model = random_model()
    ids = prompts(2, 6, padded=False)["input_ids"]
    with engine(model, record=True) as served, torch.no_grad():
        cache = model(input_ids=ids[:, :4]).past_key_values
        model(input_ids=ids[:, 4:], past_key_values=cache)
        model(input_ids=ids[:, :3])
        model.generate(input_ids=ids[:, :3], max_new_tokens=3, do_sample=False)
        assert served.routing().seq_offsets.tolist() == [0, 6, 12, 15, 18, 23, 28]


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        (5, "expected a predictor, got int without name, known_counts"),
        (Popularity(layers=2, experts=6, top_k=2), "expected forecasts for 3 layers from 'popularity'"),
        (PreviousStep(layers=3, experts=7, top_k=2), "expected forecasts for 6 experts from 'previous-step'"),
        (Oracle(steps=[np.zeros((2, 6))]), "expected forecasts for 3 layers from 'oracle'"),
    ],
    ids=["no predictor", "layers", "experts", "oracle"],
)
def test_predictors_that_do_not_fit_the_model_are_refused(predictor, message):
    with pytest.raises(AttachError, match=message):
        engine(random_model(), predictor=predictor)


@pytest.mark.parametrize("slots", [2.5, True, "3"])
def test_slots_must_be_a_number_of_slots(slots):
    with pytest.raises(AttachError, match="expected slots to be an integer >= 0"):
        engine(random_model(), slots=slots)


def test_every_step_is_verified_with_the_one_before_it(monkeypatch):
    from prescope.runtime.plugin import ledger

    model = random_model()
    inputs = prompts(2, 4)
    seen = []
    verify = ledger.verify
    monkeypatch.setattr(ledger, "verify", lambda *programs: (seen.append(programs), verify(*programs)))
    with engine(model) as served:
        for _ in range(3):
            logits(model, inputs)
        handle = model.model.layers[1].register_forward_pre_hook(lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            logits(model, inputs)
        handle.remove()
        logits(model, inputs)
        programs = [record.program for record in served.records]
    assert seen == [(programs[0],), tuple(programs[:2]), tuple(programs[1:3]), (programs[3],)]
