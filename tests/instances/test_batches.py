"""From routing to demand: batches, popularity and instances."""

from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_traces import example_trace
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.formulation import CostModel, LayerPlan, LinearTime, Link, Plan, Tier, makespan_ns
from prescope.instances import (
    Phase,
    RoutingTrace,
    build_instances,
    decode_batches,
    popularity,
    prefill,
    read_instance,
    read_trace,
    write_instance,
)

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"
lengths = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)).filter(any), min_size=1, max_size=6)


def slow_counts(trace: RoutingTrace, rows: list[int]) -> list[list[int]]:
    table = []
    for layer in range(trace.layers):
        chosen = Counter(int(e) for row in rows for e in trace.topk_ids[row, layer] if e >= 0)
        table.append([chosen[expert] for expert in range(trace.meta.experts)])
    return table


@settings(max_examples=60)
@given(st.integers(0, 10**6), lengths.filter(lambda all_: any(b for _, b in all_)), st.integers(1, 6))
def test_decode_batches_step_sequences_together(seed: int, shape: Any, batch: int) -> None:
    trace = example_trace(seed, lengths=tuple(shape))
    decoding = [b for _, b in shape if b]
    if batch > len(decoding):
        with pytest.raises(ValueError, match=rf"batch in \[1, {len(decoding)}\]"):
            decode_batches(trace, batch)
        return
    steps = list(decode_batches(trace, batch))
    rows = [int(row) for step in steps for row in step.rows]
    assert sorted(rows) == np.flatnonzero(trace.phase == Phase.DECODE).tolist(), "each token once"
    for step in steps:
        group = decoding[step.group * batch : (step.group + 1) * batch]
        assert step.demand.batch_tokens == sum(length > step.step for length in group)
        assert step.demand.counts.tolist() == slow_counts(trace, step.rows.tolist())
    assert [(step.group, step.step) for step in steps] == sorted((step.group, step.step) for step in steps)


@given(
    st.integers(0, 10**6), lengths.filter(lambda all_: any(a for a, _ in all_)), st.none() | st.integers(1, 3)
)
def test_prefill_takes_every_prompt_token_once(seed: int, shape: Any, chunk: int | None) -> None:
    trace = example_trace(seed, lengths=tuple(shape))
    steps = list(prefill(trace, chunk_tokens=chunk))
    rows = [int(row) for step in steps for row in step.rows]
    assert rows == np.flatnonzero(trace.phase == Phase.PREFILL).tolist()
    for step in steps:
        assert chunk is None or step.demand.batch_tokens <= chunk
        assert step.demand.counts.tolist() == slow_counts(trace, step.rows.tolist())


def test_prompts_go_together() -> None:
    steps = list(prefill(example_trace(), 3))
    assert [step.demand.batch_tokens for step in steps] == [6]
    steps = list(prefill(example_trace(), 2, chunk_tokens=2))
    assert [(s.group, s.step, s.demand.batch_tokens) for s in steps] == [(0, 0, 4), (0, 1, 1), (1, 0, 1)]


def test_padding_counts_nowhere() -> None:
    trace = example_trace()
    padding = np.zeros(trace.tokens, dtype=bool)
    padding[[0, 4]] = True  # a prompt token and a decoded token of the first sequence
    padded = replace(trace, padding=padding)
    assert [s.demand.batch_tokens for s in prefill(padded)] == [2, 2, 1]
    assert sum(s.demand.batch_tokens for s in decode_batches(padded, 1)) == 10
    kept = np.flatnonzero(~padding)
    assert np.array_equal(popularity(padded), popularity(trace, rows=kept))


def test_segments_emulate_more_sequences() -> None:
    trace = example_trace()
    steps = list(decode_batches(trace, 5, segment_tokens=3))
    assert [step.demand.batch_tokens for step in steps] == [5, 3, 3], "runs of 3, 1, 1, 3, 3 tokens"
    assert [s.demand.batch_tokens for s in decode_batches(trace, 3, max_steps=2)] == [3, 2]
    assert [s.demand.batch_tokens for s in decode_batches(trace, 2, sequences=[2, 1])] == [2, 1, 1, 1, 1, 1]


def test_missing_routing_is_refused_or_ignored_as_asked() -> None:
    trace = example_trace()
    ids = trace.topk_ids.copy()
    ids[3, 1] = -1
    trace = replace(trace, topk_ids=ids)
    assert len(list(prefill(trace))) == 3, "the missing token is not one of these"
    with pytest.raises(ValueError, match="2 entries that were not recorded; on_missing='ignore'"):
        list(decode_batches(trace, 1))
    first = next(iter(decode_batches(trace, 1, on_missing="ignore")))
    assert first.demand.counts.sum(axis=1).tolist() == [2, 0, 2]
    assert popularity(trace).sum(axis=1) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: decode_batches(t, 0), "batch"),
        (lambda t: decode_batches(t, 1, sequences=[3]), r"sequence in \[0, 2\]"),
        (lambda t: decode_batches(t, 1, segment_tokens=0), "segment_tokens"),
        (lambda t: decode_batches(t, 1, max_steps=0), "max_steps"),
        (lambda t: prefill(t, chunk_tokens=0), "chunk_tokens"),
        (lambda t: prefill(replace(t, phase=np.ones(17, dtype=int))), "none in this trace"),
        (lambda t: build_instances(t, "olmoe-1b-7b@lab", 1, slots=1, every=0), "every"),
        (lambda t: build_instances(t, "olmoe-1b-7b@lab", 1, slots=1, limit=0), "limit"),
        (lambda t: build_instances(t, "olmoe-1b-7b", 1, slots=1), "model@machine"),
        (lambda t: build_instances(t, "olmoe-1b-7b@lab", 1, slots=1, residents=[[0]]), "residents for 3"),
    ],
)
def test_wrong_arguments_are_refused_at_once(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(example_trace())


def test_instances_carry_demand_residents_and_provenance(tmp_path: Path) -> None:
    trace = example_trace(layers=4, experts=8)
    files = build_instances(trace, "qwen3-30b-a3b@v100-pcie3", 2, slots=3, every=2, limit=3, notes="why")
    steps = list(islice(decode_batches(trace, 2), 0, 6, 2))
    assert [file.instance.demand for file in files] == [step.demand for step in steps]
    for file, step in zip(files, steps, strict=True):
        instance = file.instance
        assert (instance.layers, instance.experts, instance.slots, instance.lookahead) == (4, 8, 3, 4)
        assert instance.name.endswith(f"decode-b2-g{step.group}-t{step.step}")
        shares = popularity(trace)
        for layer, row in enumerate(instance.residents):
            assert len(row) == 2
            assert shares[layer, list(row)].min() >= np.sort(shares[layer])[-2]
        assert "v100-pcie3" in file.provenance.source and file.provenance.notes.endswith("why")
        path = tmp_path / "x.json"
        write_instance(path, file)
        assert read_instance(path) == file


def test_disk_preset_and_own_costs() -> None:
    trace = example_trace()
    disk = build_instances(trace, "olmoe-1b-7b@nvme-ram", 1, slots=2, limit=1)[0].instance
    assert (disk.tier, disk.host_computes) == (Tier.DISK, False)
    line = (LinearTime(fixed_ns=5),)
    costs = CostModel(
        expert_bytes=(10, 20, 30), link=Link(bytes_per_s=10**9), gpu=line, cpu=line, dense=line, source="own"
    )
    own = build_instances(trace, costs, 3, slots=2, phase=Phase.PREFILL, residents=[[0], [], [6]])
    assert [file.instance.residents for file in own] == [((0,), (), (6,))]
    instance = own[0].instance
    layers = [LayerPlan(cpu=tuple(row.nonzero()[0].tolist())) for row in instance.demand.counts]
    assert makespan_ns(instance, Plan(layers=tuple(layers))) == 15 + 5 * sum(len(x.cpu) for x in layers)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no recorded traces at {SHARED}")
def test_recorded_decode_gives_batches_of_any_size() -> None:
    trace = read_trace(SHARED / "gptoss_20b.npz")
    for batch in (1, 8, 88):
        step = next(iter(decode_batches(trace, batch)))
        assert (step.demand.counts.sum(axis=1) == 4 * batch).all()
    shares = popularity(trace)
    assert shares.sum(axis=1) == pytest.approx(4.0)
    assert np.median(shares.max(axis=1) / shares.mean(axis=1)) > 2, "routing is far from uniform"
    step = next(iter(decode_batches(trace, 200, segment_tokens=64)))
    assert step.demand.batch_tokens == 200
