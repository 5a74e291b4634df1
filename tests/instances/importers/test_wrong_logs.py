"""Routing logs that are wrong, cut or hostile: refused, with the line and what to do."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_logs import CSV, JSONL, lines
from example_traces import example_trace

from prescope.instances import InstanceFileError, RoutingTrace
from prescope.instances.importers import read_csv_log, read_jsonl_log, write_csv_log, write_jsonl_log

READ: dict[str, Callable[..., RoutingTrace]] = {"csv": read_csv_log, "jsonl": read_jsonl_log}
WRITE: dict[str, Callable[..., None]] = {"csv": write_csv_log, "jsonl": write_jsonl_log}

CSV_WRONG = {
    "no experts": (
        ("# experts: 8\n", ""),
        "preamble .above line 6.: .*got no experts",
        "Add what is missing",
    ),
    "unknown key": (("# top_k", "# topk"), "line 5: expected one of the keys .* got 'topk'", ""),
    "key twice": (("# top_k: 2", "# top_k: 2\n# top_k: 2"), "line 6: .*got top_k again", ""),
    "future": (
        ("# top_k", "# prescope-routing-log: 2\n# top_k"),
        "line 5: expected version 1 .* got 2; .* upgrade",
        "",
    ),
    "no column": (("slot,", "rank,"), "line 7: .*got none called slot", "docs/recording.md"),
    "column twice": (("weight", "slot"), "line 7: .*got 'slot' twice", ""),
    "few fields": (("5,0.25,0", "5,0.25"), "line 9: expected 8 fields, got 7", ""),
    "blank line": (("0,0,0,1,0", "\n0,0,0,1,0"), "line 10: expected 8 fields, got 1", ""),
    "text": (("7,0.5", "seven,0.5"), "line 11, column expert: .*got 'seven'", ""),
    "underscore": (("7,0.5", "1_0,0.5"), "line 11, column expert: .*got '1_0'", ""),
    "byte order mark": (("# route", "\ufeff# route"), "line 1: expected names of columns, or", ""),
    "umlaut": (("0.75", "0,ä"), "line 8", ""),
    "fraction": (("7,0.5", "7.0,0.5"), "line 11, column expert: .*got '7.0'", ""),
    "huge": (("7,0.5", f"{10**30},0.5"), "line 11, column expert: expected a whole number that fits", ""),
    "expert too large": (("7,0.5", "8,0.5"), r"line 11, column expert: .*in \[-1, 7\], got 8", ""),
    "layer too large": (("0,1,1,0,1", "0,1,1,2,1"), r"line 13, column layer: .*in \[0, 1\], got 2", ""),
    "slot too large": (("0,1,1,0,1", "0,1,1,0,2"), r"line 13, column slot: .*in \[0, 1\], got 2", ""),
    "negative step": (("0,1,1,0,1", "0,1,-1,0,1"), "line 13, column step", ""),
    "entry twice": (("0,1,1,0,1", "0,1,1,0,0"), "line 13: expected each entry once, got turn 0, step 1", ""),
    "expert twice": (("3,0,100", "2,0,100"), r"column expert: expected distinct experts, got \[2, 2\]", ""),
    "both phases": (("0,1,1,0,1", "0,0,1,0,1"), "line 13, column phase: expected 1 as before for turn 0", ""),
    "nan among weights": (("0.75", "nan"), "line 8, column weight: expected a weight in every row or", ""),
    "infinite weight": (("0.75", "1e99"), "line 8, column weight: expected a finite float32", ""),
    "two sizes": (("7,0.5,200", "7,0.5,300"), "line 11, column expert_bytes: expected 200 as before", ""),
    "some sizes": ((",200", ",0"), "rows: expected expert_bytes of every layer or of none", ""),
    "cut line": (("0,1,1,0,1,3,0,100\n", "0,1,1,0,1,3,0,1"), "line 13: .*a line that was cut", "Delete the"),
    "rows missing": (("# top_k", "# rows: 7\n# top_k"), "rows: expected 7 rows .* got 6", "not whole"),
}


@pytest.mark.parametrize("case", CSV_WRONG)
def test_csv_errors_name_line_and_remedy(tmp_path: Path, case: str) -> None:
    (old, new), message, remedy = CSV_WRONG[case]
    assert old in CSV
    path = tmp_path / "wrong.csv"
    path.write_text(CSV.replace(old, new), encoding="utf-8")
    with pytest.raises(InstanceFileError, match=message) as caught:
        read_csv_log(path)
    assert remedy in caught.value.remedy and caught.value.path == str(path)


def changed(place: int, **fields: Any) -> list[Any]:
    records = [dict(record) for record in JSONL]
    for name, value in fields.items():
        if value is None:
            del records[place][name]
        else:
            records[place][name] = value
    return records


JSONL_WRONG = {
    "no header": (JSONL[1:], "line 1: Object missing required field `format`|line 1: .*unknown field"),
    "no experts": (changed(0, experts=None), "line 1: Object missing required field `experts`"),
    "future": (changed(0, version=2), "line 1: Invalid enum value 2"),
    "too many experts": (changed(0, experts=10**6), "line 1: .*`\\$.experts`"),
    "few sizes": (changed(0, expert_bytes=[3]), "line 1: expected expert_bytes of 2 layers, got 1"),
    "unknown field": (changed(1, colour=1), "line 2: .*unknown field `colour`"),
    "no phase": (changed(1, phase=None), "line 2: expected phase and sequences in the first record"),
    "no sequences": (changed(3, sequences=None), "line 4: expected phase and sequences"),
    "narrow ids": (
        changed(1, ids=[[3], [1], [0]]),
        "line 2: expected ids as rows of 2 values, got a row of 1",
    ),
    "ragged ids": (changed(1, ids=[[3, 5], [1], [0, 7]]), "line 2: expected ids as rows of 2"),
    "no ids": (changed(1, ids=[]), "line 2: expected ids as rows of 2 values, got none"),
    "few ids": (changed(4, ids=[[7, 6]]), "line 5: expected ids of the 2 tokens of the forward, got 1"),
    "fraction": (changed(1, ids=[[3, 5.5], [1, 2], [0, 7]]), "line 2: Expected `int`, got `float`"),
    "expert too large": (changed(1, ids=[[3, 8], [1, 2], [0, 7]]), r"line 2: expected ids in \[-1, 7\]"),
    "huge expert": (changed(1, ids=[[3, 10**30], [1, 2], [0, 7]]), "line 2"),
    "expert twice": (changed(1, ids=[[3, 3], [1, 2], [0, 7]]), r"line 2: expected distinct ids .* \[3, 3\]"),
    "layer too large": (changed(2, layer=2), r"line 3: expected layer in \[0, 1\], got 2"),
    "layer twice": (changed(2, layer=0), "line 3: expected a layer after 0 in this forward, got 0"),
    "forward goes back": (changed(3, forward=0, layer=1), "line 4"),
    "earlier forward": ([*JSONL, JSONL[2]], "line 6: expected forward 1 or later, got 0"),
    "rows descend": (changed(2, rows=[2, 1]), "line 3: expected 2 ascending rows below 3"),
    "rows beyond": (changed(2, rows=[1, 3]), "line 3: expected 2 ascending rows below 3"),
    "other sequences": (changed(4, sequences=[0, 1]), "line 5: expected the same sequences as in the first"),
    "some tokens": (changed(1, tokens=[1, 2, 3]), "line 4: expected tokens in all records or in none"),
    "late tokens": (changed(2, tokens=[1, 2, 3]), "line 3: expected tokens in the first record"),
    "some weights": (
        changed(1, weights=[[0.5, 0.5]] * 3),
        "line 3: expected weights in all records or in none, got both",
    ),
    "two lengths": (changed(1, tokens=[1, 2]), r"line 2: expected one entry per token .*\[2, 3\]"),
    "records missing": (changed(0, records=5), "records: expected 5 records as the first line says, got 4"),
}


@pytest.mark.parametrize("case", JSONL_WRONG)
def test_jsonl_errors_name_their_line(tmp_path: Path, case: str) -> None:
    records, message = JSONL_WRONG[case]
    path = tmp_path / "wrong.jsonl"
    path.write_text(lines(records))
    with pytest.raises(InstanceFileError, match=message) as caught:
        read_jsonl_log(path)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "line", ['{"forward": 0, "layer": 0, "layer": 1}', "[" * 10**6, "1" * 10**5, "", "nul"]
)
def test_odd_lines_are_refused(tmp_path: Path, line: str) -> None:
    for text in (f"{line}\n", lines(JSONL[:1]) + line + "\n"):
        (tmp_path / "odd.jsonl").write_text(text)
        with pytest.raises(InstanceFileError, match="line [12]: "):
            read_jsonl_log(tmp_path / "odd.jsonl")


def test_field_said_twice_is_refused(tmp_path: Path) -> None:
    text = lines(JSONL).replace('"layer": 1, "rows"', '"layer": 0, "layer": 1, "rows"')
    (tmp_path / "twice.jsonl").write_text(text)
    with pytest.raises(InstanceFileError, match="line 3: expected each field once"):
        read_jsonl_log(tmp_path / "twice.jsonl")


@pytest.mark.parametrize("kind", READ)
def test_a_log_that_ends_early_is_refused(tmp_path: Path, kind: str) -> None:
    """Wherever it was cut: inside a line, between two, in the compressed file."""
    trace = example_trace(1, everything=False)
    WRITE[kind](tmp_path / "whole", trace)
    whole = (tmp_path / "whole").read_bytes()
    for path, data in ((tmp_path / "a", whole), (tmp_path / "a.gz", gzip.compress(whole))):
        for end in range(0, len(data), 1 + len(data) // 97):
            path.write_bytes(data[:end])
            with pytest.raises(InstanceFileError):
                READ[kind](path)


def test_compressed_in_several_pieces_and_hostile(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    data = CSV.encode()
    path.write_bytes(gzip.compress(data[:90]) + gzip.compress(data[90:]))
    assert read_csv_log(path).tokens == 2
    path.write_bytes(gzip.compress(data) + b"behind")
    with pytest.raises(InstanceFileError, match="expected gzip data"):
        read_csv_log(path)
    path.write_bytes(gzip.compress(data + b"0" * 10**7))
    with pytest.raises(InstanceFileError, match="line 14: expected at most 1048576 bytes in a line"):
        read_csv_log(path)
    row = b"0,0,0,0,0,3,0.75,100\n"
    path.write_bytes(gzip.compress(data[: data.index(row)] + b"#\n" * 10**7 + row))
    with pytest.raises(InstanceFileError, match="line 8: expected 8 fields"):
        read_csv_log(path)
    path.write_bytes(gzip.compress(b"#" * 79 + b"\n" + (b"#" * 79 + b"\n") * 10**5))
    with pytest.raises(InstanceFileError, match="preamble of at most"):
        read_csv_log(path)


@pytest.mark.parametrize(
    "text",
    [
        "# x=" + " " * 10**6 + "\n",
        "# " + "x=1 " * 10**5 + "\n",
        "# " + "x" * 10**6 + "\n",
        "# model" + " " * 10**6 + "\n",
        "# model: " + '"' * 10**6 + "\n",
        "a," * 10**5 + "\n",
        "#\n" * 10**5,
    ],
)
def test_long_preambles_take_no_time(tmp_path: Path, text: str) -> None:
    """Each is read in a moment; what is quadratic in them would take hours."""
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(InstanceFileError):
        read_csv_log(tmp_path / "log.csv")


def test_compressed_in_endless_pieces(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"") * 10**5)
    with pytest.raises(InstanceFileError, match="at most 10000 compressed parts"):
        read_csv_log(path)


def test_few_rows_do_not_make_a_large_trace(tmp_path: Path) -> None:
    """Two rows of far more layers and experts than anything else in the log, a million times."""
    path = tmp_path / "sparse.csv"
    head = "# model: m\n# experts: 9\n# top_k: 8\n# layers: 1024\nturn,phase,step,layer,slot,expert\n"
    path.write_text(head + "".join(f"0,0,{step},0,0,1\n" for step in range(10**4)))
    with pytest.raises(InstanceFileError, match="check layers and top_k"):
        read_csv_log(path)
