"""What counts as a layer's dense work, on real models with a clock that only some modules move."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from fake_time import FakeClock
from tiny_models import FAMILY_NAMES, prompts, random_model

from prescope.runtime.plugin.moe_layers import MoeLayer, moe_layers
from prescope.runtime.profile import quick_settings
from prescope.runtime.profile.decode_cache import DecodeCache
from prescope.runtime.profile.dense_times import layer_groups, time_dense
from prescope.runtime.profile.only_dense import only_dense

SETTINGS = replace(quick_settings(), decode_tokens=(1, 3), prefill_tokens=(2, 5), context=4)


def layer_at(name: str) -> MoeLayer:
    return MoeLayer(name=name, experts=None, router=None, norm=None)


def on_forward(module: Any, run: Any) -> Any:
    return module.register_forward_pre_hook(lambda *_: run())


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_layers_time_is_from_gate_to_gate(family: str) -> None:
    model, clock = random_model(family, layers=4), FakeClock()
    on_forward(model.base_model.embed_tokens, lambda: clock.advance(1_000_000))
    for index, decoder in enumerate(model.base_model.layers):
        on_forward(decoder.self_attn, lambda index=index: clock.advance(10 ** (index + 1)))
    # After the last gate: in no layer's dense work.
    on_forward(model.base_model.norm, lambda: clock.advance(10**12))
    layers = moe_layers(model)
    cache = DecodeCache(model, sequences=3, context=4, seed=0)
    first, rest, *prompt = time_dense(model, layers, cache, SETTINGS, threads=1, clock=clock)
    assert [(one.kind, one.layer, one.xs) for one in (first, rest)] == [
        ("dense-decode", 0, (1, 3)),
        ("dense-decode", 1, (1, 3)),
    ]
    assert [(one.kind, one.layer, one.xs) for one in prompt] == [
        ("dense-prompt", 0, (2, 5)),
        ("dense-prompt", 1, (2, 5)),
    ]
    for series in (first, prompt[0]):
        assert series.medians_ns == (1_000_010,) * 2
    for series in (rest, prompt[1]):
        assert series.medians_ns == ((100 + 1000 + 10_000) // 3,) * 2


def test_decoding_looks_at_a_cache_of_the_context_every_time() -> None:
    model = random_model(layers=2)
    seen: list[tuple[int, int, int]] = []
    attention = model.base_model.layers[1].self_attn

    def look(module: Any, arguments: Any, keywords: Any) -> None:
        cache = keywords.get("cache", keywords.get("past_key_values"))
        length = 0 if cache is None else cache.get_seq_length(1)
        seen.append((*keywords["hidden_states"].shape[:2], length))

    attention.register_forward_pre_hook(look, with_kwargs=True)
    cache = DecodeCache(model, sequences=3, context=4, seed=0)
    seen.clear()
    time_dense(model, moe_layers(model), cache, SETTINGS, threads=1, clock=FakeClock(tick_ns=1))
    decoding = [entry for entry in seen if entry[1] == 1]
    assert set(decoding) == {(1, 1, 4), (3, 1, 4)} and len(decoding) >= 2 * 4
    assert {entry for entry in seen if entry[1] > 1} == {(1, 2, 0), (1, 5, 0)}


def test_the_context_is_shortened_rather_than_filling_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from prescope.runtime.profile import decode_cache

    model = random_model(layers=2)
    # 2 layers, keys and values of 2 heads of 8 floats each: 256 bytes a token.
    monkeypatch.setattr(decode_cache, "_MOST_BYTES", 256 * 3 * 10)
    assert DecodeCache(model, sequences=3, context=64, seed=0).context == 10
    assert DecodeCache(model, sequences=3, context=8, seed=0).context == 8


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_experts_on_no_device_are_enough_and_nothing_stays_behind(family: str) -> None:
    model = random_model(family)
    layers, inputs = moe_layers(model), prompts(2, 4)
    with torch.no_grad():
        before = model(**inputs).logits
        kept = [(layer.experts.gate_up_proj, layer.experts.down_proj) for layer in layers]
        for layer in layers:
            for name in ("gate_up_proj", "down_proj"):
                meta = torch.nn.Parameter(getattr(layer.experts, name).to("meta"), requires_grad=False)
                setattr(layer.experts, name, meta)
        gates = []
        with only_dense(layers, lambda: gates.append(1)):
            assert torch.isfinite(model(**inputs).logits).all()
        assert len(gates) == len(layers)
        for layer, (gate_up, down) in zip(layers, kept, strict=True):
            layer.experts.gate_up_proj, layer.experts.down_proj = gate_up, down
        assert torch.equal(model(**inputs).logits, before)


def test_layers_with_other_layers_between_are_kept_apart() -> None:
    names = [f"model.layers.{index}.mlp.experts" for index in (1, 2, 3, 5, 7, 8)]
    layers = tuple(map(layer_at, names))
    assert layer_groups(layers) == ((0,), (1, 2, 5), (3, 4))
    assert layer_groups(layers[:1]) == ((0,),)
    assert layer_groups(tuple(map(layer_at, names[1:3]))) == ((0,), (1,))
