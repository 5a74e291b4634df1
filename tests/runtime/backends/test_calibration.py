"""The dilation leaves room for the slowest kind of work."""

import time

import pytest

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import synthetic_store
from prescope.runtime.backends.cpu import CpuOptions, Probe, calibrate, copy_probe
from prescope.runtime.backends.cpu.calibration import Measured

COSTS = CostModel(
    expert_bytes=(1000, 1000),
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=1),),
    cpu=(LinearTime(fixed_ns=1),),
    dense=(LinearTime(fixed_ns=1),),
)


def test_real_work_must_fit_twice():
    slow = Probe(kind="gpu", modelled_ns=10_000, run=lambda: time.sleep(0.002))
    quick = Probe(kind="dense", modelled_ns=10_000, run=lambda: None)
    result = calibrate([slow, quick], floor_ns=1, repeats=5, warmup=0)
    assert result.dilation >= 2 * 2_000_000 / 10_000
    assert result.dilation == result.measured[0].needed
    assert [entry.kind for entry in result.measured] == ["gpu", "dense"]


def test_the_shortest_operation_gets_the_floor():
    probes = [Probe(kind=kind, modelled_ns=ns, run=lambda: None) for kind, ns in (("gpu", 500), ("cpu", 900))]
    assert calibrate(probes, floor_ns=10**9, repeats=3).dilation == 10**9 / 500


def test_a_copy_must_fit_four_times_at_its_median():
    values = {"modelled_ns": 100, "p50_ns": 90, "p99_ns": 100}
    assert Measured(kind="copy", **values).needed == 3.6
    assert Measured(kind="gpu", **values).needed == 2.0


def test_the_copy_probe_copies_real_rows():
    probe = copy_probe(synthetic_store(layers=2, experts=3), COSTS)
    assert (probe.kind, probe.modelled_ns) == ("copy", 1000)
    for _ in range(4):
        probe.run()


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="at least one probe"):
        calibrate([])
    with pytest.raises(ValueError, match="modelled_ns of gpu"):
        Probe(kind="gpu", modelled_ns=0, run=lambda: None)
    with pytest.raises(ValueError, match="dilation"):
        CpuOptions(dilation=0)
