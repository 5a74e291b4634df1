"""`prescope import` and `export-log`, and the logs that docs/recording.md shows."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_traces import example_trace, same_trace
from json_contract import Exported, Imported

from prescope.cli import main
from prescope.instances import read_trace, write_trace
from prescope.instances.importers import read_csv_log, read_jsonl_log

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recording.md"


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "jsonl.gz"])
def test_out_and_in_again(answer: Callable[..., Any], tmp_path: Path, ending: str) -> None:
    trace = replace(example_trace(), hidden=None)
    write_trace(tmp_path / "a.npz", trace)
    log = tmp_path / f"log.{ending}"
    exported = answer(Exported, "export-log", tmp_path / "a.npz", "-o", log)
    assert (exported.path, exported.tokens) == (str(log), trace.tokens)
    imported = answer(Imported, "import", log, "-o", tmp_path / "b.npz")
    assert (imported.log, imported.sequences) == (str(log), trace.sequences)
    assert same_trace(read_trace(tmp_path / "b.npz"), trace)


def test_gating_inputs_are_left_out_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path / "a.npz", example_trace())
    assert main(["export-log", str(tmp_path / "a.npz"), "-o", str(tmp_path / "log.csv")]) == 0
    assert "gating inputs are left out" in capsys.readouterr().err


def test_wrong_input_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("turn,phase\n")
    assert "log.csv: line 1: expected the columns" in refusal("import", log, "-o", tmp_path / "x.npz")
    assert "ending in .npz" in refusal("import", log, "-o", tmp_path / "x.csv")
    assert "end in one of .csv" in refusal("import", tmp_path / "log.txt", "-o", tmp_path / "x.npz")
    assert "regular file" in refusal("export-log", tmp_path / "no.npz", "-o", log)
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_the_logs_of_the_page_are_read(tmp_path: Path) -> None:
    found = re.findall(r"<!-- log\.(\w+) -->\n```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in found] == ["csv", "jsonl"]
    for kind, text in found:
        (tmp_path / f"log.{kind}").write_text(text)
    csv = read_csv_log(tmp_path / "log.csv")
    assert csv.topk_ids.tolist() == [[[3, 5], [1, 7]], [[2, 3], [-1, -1]]]
    assert csv.expert_bytes is not None and csv.expert_bytes.tolist() == [1048576, 2097152]
    assert csv.meta.source == "my own engine, prompts of my own"
    jsonl = read_jsonl_log(tmp_path / "log.jsonl")
    assert jsonl.seq_offsets.tolist() == [0, 3, 5] and jsonl.phase.tolist() == [0, 0, 1, 0, 1]
    assert jsonl.topk_ids[:, 0].tolist() == [[3, 5], [1, 2], [2, 3], [0, 7], [1, 0]]
    assert jsonl.topk_ids[:, 1].tolist() == [[4, 3], [6, 5], [5, 4], [2, 1], [-1, -1]]


def test_the_pages_tables_name_every_field() -> None:
    from prescope.instances.importers.csv_preamble import KEYS
    from prescope.instances.importers.csv_table import OPTIONAL, REQUIRED
    from prescope.instances.importers.jsonl_schema import HeaderLine, RecordLine

    text = PAGE.read_text()
    for name in (*KEYS, *REQUIRED, *OPTIONAL, *HeaderLine.__struct_fields__, *RecordLine.__struct_fields__):
        assert re.search(rf"`{name}[`:]", text), name
    assert json.dumps("prescope-routing-log") in text
