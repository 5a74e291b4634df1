"""Routing logs: a trace written as a log and read again is the same trace, in little memory."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_logs import CSV, JSONL, lines
from example_traces import example_trace, same_trace
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_logs import logged_traces

from prescope.instances import InstanceFileError, RoutingTrace
from prescope.instances.importers import (
    line_blocks,
    read_csv_log,
    read_jsonl_log,
    write_csv_log,
    write_jsonl_log,
)

READ: dict[str, Callable[..., RoutingTrace]] = {"csv": read_csv_log, "jsonl": read_jsonl_log}
WRITE: dict[str, Callable[..., None]] = {"csv": write_csv_log, "jsonl": write_jsonl_log}


@settings(max_examples=60)
@given(logged_traces(), st.sampled_from(["csv", "csv.gz", "jsonl", "jsonl.gz"]), st.integers(1, 4))
def test_log_reads_back_as_the_trace(
    tmp_path_factory: pytest.TempPathFactory, trace: RoutingTrace, suffix: str, batch: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"log.{suffix}"
    kind = suffix.partition(".")[0]
    WRITE[kind](path, trace, **({"batch": batch} if kind == "jsonl" else {}))
    assert same_trace(READ[kind](path), trace)


@settings(max_examples=40)
@given(logged_traces(), st.randoms(use_true_random=False))
def test_order_of_csv_rows_and_columns_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, trace: RoutingTrace, rng: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "mixed.csv"
    write_csv_log(path, trace)
    text = path.read_text().splitlines()
    at = next(number for number, line in enumerate(text) if not line.startswith("#"))
    table = [line.split(",") for line in text[at:]]
    columns = list(range(len(table[0])))
    rng.shuffle(columns)
    table = [[row[column] for column in columns] for row in table]
    rows = table[1:]
    rng.shuffle(rows)
    path.write_text("\n".join([*text[:at], *(",".join(row) for row in [table[0], *rows]), ""]))
    assert same_trace(read_csv_log(path), trace)


@pytest.mark.parametrize("block_bytes", [1, 7, 64])
def test_blocks_cut_anywhere_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    trace = example_trace(3)
    trace = RoutingTrace(**{name: getattr(trace, name) for name in trace.__slots__ if name != "hidden"})
    monkeypatch.setattr(line_blocks, "_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(line_blocks, "_READ_BYTES", block_bytes)
    for suffix in ("csv", "csv.gz", "jsonl"):
        kind = suffix.partition(".")[0]
        WRITE[kind](tmp_path / f"x.{suffix}", trace)
        assert same_trace(READ[kind](tmp_path / f"x.{suffix}"), trace)


def test_log_that_a_streaming_engine_writes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Pairs in the preamble, a dense first layer, sizes of what was read, unknown weights, more columns."""
    path = tmp_path / "engine.csv"
    path.write_text(
        "# route_trace v1\n"
        "# model=/home/me/my models/small.gguf arch=moe n_layer=3 n_expert=4 n_expert_used=2\n"
        "# layer=0 expert_bytes=0 dense_bytes=7\n# layer=1 expert_bytes=100 dense_bytes=8\n"
        "# layer=2 expert_bytes=200 dense_bytes=9\n"
        "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes,dropped\n"
        + "".join(
            f"0,{int(step > 4)},{step},{layer},{slot},{(step + slot) % 4},nan,0,{55 * slot},0\n"
            for step in (4, 5)
            for layer in (1, 2)
            for slot in (0, 1)
        )
    )
    trace = read_csv_log(path)
    assert trace.meta.model == "small.gguf" and trace.topk_weights is None
    assert trace.topk_ids.tolist() == [[[0, 1], [0, 1]], [[1, 2], [1, 2]]]
    assert trace.expert_bytes is not None and trace.expert_bytes.tolist() == [100, 200]
    assert trace.dense_bytes is not None and trace.dense_bytes.tolist() == [8, 9]
    assert "left out: residency, dropped" in caplog.text
    path.write_text(path.read_text().replace("0,0,4,1,0", "0,0,4,0,0"))
    with pytest.raises(InstanceFileError, match=r"line 7, column layer: .*expected layer in \[1, 2\], got 0"):
        read_csv_log(path)


def test_what_is_not_in_a_log_is_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    trace = read_csv_log(tmp_path / "a.csv")
    assert trace.topk_ids.tolist() == [[[3, 5], [1, 7]], [[2, 3], [-1, -1]]]
    assert trace.topk_weights is not None and trace.topk_weights[1].tolist() == [[1, 0], [0, 0]]
    assert trace.expert_bytes is not None and trace.expert_bytes.tolist() == [100, 200]
    (tmp_path / "a.jsonl").write_text(lines(JSONL))
    trace = read_jsonl_log(tmp_path / "a.jsonl")
    assert trace.seq_offsets.tolist() == [0, 3, 5]
    assert trace.phase.tolist() == [0, 0, 1, 0, 1]
    assert trace.topk_ids[:3].tolist() == [[[3, 5], [-1, -1]], [[1, 2], [4, 3]], [[2, -1], [5, 4]]]


@pytest.mark.parametrize("kind", READ)
def test_memory_is_the_trace_and_a_few_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(line_blocks, "_BLOCK_BYTES", 1 << 16)
    small = example_trace(lengths=((20, 20),) * 60, layers=8, experts=32, top_k=4, everything=False)
    path = tmp_path / f"large.{kind}"
    WRITE[kind](path, small)
    READ[kind](path)
    tracemalloc.start()
    trace = READ[kind](path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * (trace.topk_ids.nbytes + 4 * trace.topk_ids.size) + 40 * (1 << 16)
    assert path.stat().st_size > 4 * trace.topk_ids.nbytes or kind == "jsonl"


def test_progress_ends_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    seen: list[tuple[int, int]] = []
    read_csv_log(tmp_path / "a.csv", progress=lambda done, whole: seen.append((done, whole)))
    assert seen[-1] == (len(CSV), len(CSV))


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prescope.instances.importers import csv_export

    (tmp_path / "log.csv").write_text("before")
    monkeypatch.setattr(csv_export, "_rows", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_csv_log(tmp_path / "log.csv", example_trace())
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]
    assert (tmp_path / "log.csv").read_text() == "before"
