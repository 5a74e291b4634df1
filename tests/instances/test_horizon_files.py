"""Horizon files: what is written is read, and what does not fit is refused with the field."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_horizons import tiny_horizon

from prescope.instances import (
    HorizonFile,
    InstanceFileError,
    Provenance,
    read_horizon,
    read_instance,
    write_horizon,
)

ORIGIN = Provenance(source="a test", generator="this file")


def same(left, right):
    """Whether two horizons are the same; arrays have no equality of their own."""
    return replace(left, demands=right.demands) == right and all(
        np.array_equal(a.counts, b.counts) and a.batch_tokens == b.batch_tokens
        for a, b in zip(left.demands, right.demands, strict=True)
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 4), ending=st.sampled_from([".json", ".json.gz"]))
def test_a_horizon_comes_back_as_it_was(seed, steps, ending, tmp_path_factory):
    path = tmp_path_factory.mktemp("horizon") / f"h{ending}"
    file = HorizonFile(horizon=tiny_horizon(seed, steps), provenance=ORIGIN)
    checksum = write_horizon(path, file)
    back = read_horizon(path)
    assert same(back.horizon, file.horizon)
    assert back.provenance == ORIGIN
    assert back.sha256 == checksum == file.sha256


def changed(tmp_path, change):
    path = tmp_path / "h.json"
    write_horizon(path, HorizonFile(horizon=tiny_horizon(5, 3), provenance=ORIGIN))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["later"].pop(), "altered"),
        (lambda d: d["later"][1]["counts"].pop(), "layers"),
        (lambda d: d["later"][0]["counts"][0].append(0), "experts"),
        (lambda d: d["instance"].update(link_ready_ns=3), "idle link"),
        (lambda d: d.update(later=None), "later"),
        (lambda d: d.update(more=1), "more"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, change, message):
    with pytest.raises(InstanceFileError, match=message):
        read_horizon(changed(tmp_path, change))


def test_an_instance_reader_says_which_reader_to_take(tmp_path):
    with pytest.raises(InstanceFileError, match="read_horizon"):
        read_instance(changed(tmp_path, lambda document: None))


def test_a_truncated_file_is_refused(tmp_path):
    path = changed(tmp_path, lambda document: None)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InstanceFileError):
        read_horizon(path)
