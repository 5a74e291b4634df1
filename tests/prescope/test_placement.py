"""Placements for other engines: masks, arguments, what is lost."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from json_contract import Placement

from prescope.instances import RoutingTrace, TraceMeta, read_instance, write_trace
from prescope.instances.batches import activations
from prescope.placement import (
    HotList,
    hottest_of_all,
    hottest_of_each_layer,
    ktransformers_document,
    ktransformers_losses,
    llama_cpp_document,
    llama_cpp_losses,
    override_of,
    whole_layers,
)

Answer = Callable[..., Any]

counts = hnp.arrays(
    np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(0, 9)
)


@given(counts, st.data())
def test_the_hottest_are_chosen(table: np.ndarray, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, table.size))
    hot = hottest_of_all(table, count)
    assert hot.experts == count
    # No other set of this size catches more.
    best = np.sort(table, axis=None)[::-1][:count].sum()
    assert table[hot.mask].sum() == best
    per_layer = data.draw(st.integers(0, table.shape[1]))
    each = hottest_of_each_layer(table, per_layer)
    assert (each.mask.sum(axis=1) == per_layer).all()
    assert table[each.mask].sum() == np.sort(table, axis=1)[:, ::-1][:, :per_layer].sum()
    assert hottest_of_all(table, each.experts).covered >= each.covered


@given(counts, st.data())
def test_whole_layers_fit_and_catch_no_more(table: np.ndarray, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, table.size))
    hot = whole_layers(table, count)
    assert (hot.mask.all(axis=1) == hot.mask.any(axis=1)).all()
    assert count - table.shape[1] < hot.experts <= count
    sums = np.sort(table.sum(axis=1))[::-1]
    assert table[hot.mask].sum() == sums[: count // table.shape[1]].sum()
    assert hot.covered <= hottest_of_all(table, hot.experts).covered


@given(counts, st.data(), st.integers(0, 3))
def test_llama_cpp_arguments_name_the_layers_off_the_device(
    table: np.ndarray, data: st.DataObject, dense: int
) -> None:
    hot = whole_layers(table, data.draw(st.integers(0, table.size)))
    document = llama_cpp_document(hot, dense_layers=dense)
    blocks = dense + table.shape[0]
    on_host = {block for block in range(blocks) if block >= dense and not hot.mask[block - dense].any()}
    assert set(document["cpu_blocks"]) == on_host
    pattern = document["override_tensor"]
    named = set() if pattern is None else _matched(pattern, blocks)
    assert named == on_host
    words = document["arguments"]
    if "--n-cpu-moe" in words:
        leading = int(words[words.index("--n-cpu-moe") + 1])
        assert document["n_cpu_moe"] == leading
        assert set(range(dense, leading)) == on_host
    elif "--override-tensor" in words:
        assert words[words.index("--override-tensor") + 1] == pattern
        assert document["n_cpu_moe"] is None
    else:
        assert not on_host and document["n_cpu_moe"] == 0


def _matched(pattern: str, blocks: int) -> set[int]:
    expression, _, where = pattern.rpartition("=")
    assert where == "CPU"
    found = set()
    for block in range(blocks):
        for part in ("up", "down", "gate", "gate_up"):
            hits = re.search(expression, f"blk.{block}.ffn_{part}_exps.weight") is not None
            if hits:
                found.add(block)
            assert hits == (block in found)
        for other in ("ffn_gate_inp.weight", "attn_q.weight", "ffn_up_shexp.weight", "ffn_up.weight"):
            assert re.search(expression, f"blk.{block}.{other}") is None
    return found


def test_block_1_is_not_block_11() -> None:
    assert _matched(override_of([1]), 13) == {1}
    assert _matched(override_of([11, 2]), 13) == {2, 11}


def test_a_layer_in_part_is_refused() -> None:
    mask = np.array([[True, False]])
    hot = HotList(mask=mask, activations=np.ones((1, 2), dtype=np.int64))
    with pytest.raises(ValueError, match="expected whole layers"):
        llama_cpp_document(hot)


@given(counts, st.data(), st.integers(0, 3))
def test_ktransformers_rows_are_those_of_the_whole_model(
    table: np.ndarray, data: st.DataObject, dense: int
) -> None:
    hot = hottest_of_all(table, data.draw(st.integers(0, table.size)))
    document = json.loads(json.dumps(ktransformers_document(hot, dense_layers=dense)))
    mask = np.array(document["gpu_experts_mask"])
    assert mask.shape == (dense + table.shape[0], table.shape[1])
    assert not mask[:dense].any() and (mask[dense:] == hot.mask).all()
    assert (np.array(document["logical_count"])[dense:] == table).all()
    assert [np.flatnonzero(row).tolist() for row in mask] == document["hot_experts"]
    assert document["num_gpu_experts"] == mask.sum()
    told = " ".join(ktransformers_losses(hot))
    sizes = set(hot.mask.sum(axis=1).tolist())
    assert ("different numbers" in told) == (len(sizes) > 1)
    assert ("without any expert" in told) == (0 in sizes)


def test_losses_of_whole_layers_in_numbers() -> None:
    table = np.array([[8, 0], [1, 1]], dtype=np.int64)
    hot, finer = whole_layers(table, 2), hottest_of_all(table, 2)
    assert llama_cpp_losses(hot, finer)[0].startswith("whole layers catch 80.0%")
    assert "2 experts, wherever they are, would catch 90.0%" in llama_cpp_losses(hot, finer)[0]


def test_nothing_recorded_catches_nothing() -> None:
    assert hottest_of_all(np.zeros((2, 2), dtype=np.int64), 2).covered == 0.0


@pytest.fixture
def trace_path(tmp_path: Path) -> Path:
    ids = np.array([[[0, 1], [2, 3]], [[0, 2], [2, 1]], [[3, 0], [2, 0]]], dtype=np.int16)
    trace = RoutingTrace(
        topk_ids=ids,
        topk_weights=np.full(ids.shape, 0.5, dtype=np.float32),
        phase=np.ones(3, dtype=np.uint8),
        padding=np.array([False, False, True]),
        seq_offsets=np.array([0, 3], dtype=np.int64),
        meta=TraceMeta(model="example", experts=4, top_k=2),
    )
    path = tmp_path / "routing.npz"
    write_trace(path, trace)
    assert activations(trace).tolist() == [[2, 1, 1, 0], [0, 1, 2, 1]]  # padding left out
    return path


def test_command_for_ktransformers(answer: Answer, trace_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "mask.json"
    given = answer(
        Placement, "placement", trace_path, "--engine", "ktransformers", "--per-layer", "1", "-o", out
    )
    document = json.loads(out.read_text())
    assert document["hot_experts"] == [[0], [2]]
    assert (given.experts_on_device, given.covered, given.arguments) == (2, 0.5, None)
    assert given.lost == document["lost"]


def test_command_for_llama_cpp(answer: Answer, trace_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "layers.json"
    given = answer(
        Placement, "placement", trace_path, "--engine", "llama.cpp", "--expert-memory", "7KiB",
        "--expert-size", "1KiB", "--anywhere", "-o", out,
    )  # fmt: skip
    assert given.arguments == ["--n-gpu-layers", "999", "--n-cpu-moe", "1"]
    assert given.experts_on_device == 4 and given.covered == 0.5


def test_command_with_an_instance_takes_its_residents(
    answer: Answer, instance_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mask.json"
    answer(Placement, "placement", instance_path, "--engine", "ktransformers", "-o", out)
    residents = read_instance(instance_path).instance.residents
    assert json.loads(out.read_text())["hot_experts"] == [sorted(row) for row in residents]


def test_refusals(refusal: Callable[..., str], trace_path: Path, tmp_path: Path) -> None:
    def refused(*options: str, output: str = "mask.json") -> str:
        return refusal(
            "placement", trace_path, "--engine", "ktransformers", "-o", tmp_path / output, *options
        )

    assert "got 0 of them" in refused()
    assert "share" in refused("--share", "nan")
    assert "got 2 of them" in refused("--per-layer", "1", "--share", "0.5")
    assert "expected count in [0, 4]" in refused("--per-layer", "5")
    assert "expected --expert-size beside" in refused("--expert-memory", "1GiB")
    assert "expected --expert-memory beside" in refused("--expert-size", "1GiB")
    said = refused("--expert-memory", "1GiB", "--expert-size", "qwen3-30b")
    assert "expected --expert-size as a size or the name of a model (" in said and "'qwen3-30b'" in said
    assert "at least one byte" in refused("--expert-memory", "1GiB", "--expert-size", "0")
    assert "ending in .json" in refused("--per-layer", "1", output="mask.pt")
    assert not list(tmp_path.glob("mask*"))
