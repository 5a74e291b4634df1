"""Hypothesis strategies for everything a cost file can hold, and one example."""

from datetime import date

from file_strategies import cost_models, durations, names, text
from hypothesis import strategies as st

from prescope.formulation import CostModel, LinearTime, Link, TableTime, Tier
from prescope.instances import (
    CostFile,
    CostProvenance,
    MachineDescription,
    MeasuredPoint,
    MeasuredSeries,
    ModelFingerprint,
)
from prescope.instances.cost_series import SERIES_KINDS

counts = st.integers(1, 2**31)
days = st.dates(date(1, 1, 1), date(9999, 12, 31)).map(date.isoformat)
machines = st.builds(
    MachineDescription,
    system=names,
    architecture=names,
    cores=counts,
    memory_bytes=st.integers(1, 2**50),
    python=names,
    torch=names,
    transformers=st.none() | names,
)


@st.composite
def provenances(draw: st.DrawFn) -> CostProvenance:
    disk = draw(st.booleans())
    return CostProvenance(
        measured_on=draw(days),
        machine=draw(machines),
        threads=draw(counts),
        depth=draw(counts) if disk else None,
        direct=draw(st.booleans()) if disk else None,
        context=draw(st.integers(0, 2**31)),
        quick=draw(st.booleans()),
        seed=draw(st.integers(0, 2**63 - 1)),
        notes=draw(text),
    )


@st.composite
def measured_series(draw: st.DrawFn) -> MeasuredSeries:
    points = []
    for x in sorted(draw(st.sets(st.integers(1, 2**50), min_size=1, max_size=4))):
        low_ns, median_ns, high_ns = sorted(draw(st.lists(durations, min_size=3, max_size=3)))
        point = MeasuredPoint(
            x=x, median_ns=median_ns, low_ns=low_ns, high_ns=high_ns, repeats=draw(st.integers(1, 99))
        )
        points.append(point)
    return MeasuredSeries(
        kind=draw(st.sampled_from(SERIES_KINDS)),
        label=draw(names),
        workers=draw(counts),
        layer=draw(st.none() | st.integers(0, 99)),
        points=tuple(points),
    )


@st.composite
def cost_files(draw: st.DrawFn) -> CostFile:
    layers = draw(st.integers(1, 3))
    fingerprint = ModelFingerprint(
        family=draw(names),
        layers=layers,
        decoder_layers=layers + draw(st.integers(0, 2)),
        experts=draw(st.integers(1, 8192)),
        top_k=draw(counts),
        gate_up_shape=(draw(counts), draw(counts)),
        down_shape=(draw(counts), draw(counts)),
        dense_parameters=draw(st.integers(0, 2**50)),
        dtype=draw(names),
    )
    tier = draw(st.sampled_from(Tier))
    return CostFile(
        costs=draw(cost_models(layers)),
        fingerprint=fingerprint,
        provenance=draw(provenances()),
        tier=tier,
        host_computes=tier is Tier.RAM and draw(st.booleans()),
        series=tuple(draw(st.lists(measured_series(), max_size=3))),
    )


def example_costs() -> CostFile:
    """A small cost file, the same each time."""
    points = tuple(
        MeasuredPoint(x=x, median_ns=10 + x, low_ns=9 + x, high_ns=12 + x, repeats=5) for x in (1, 2, 8)
    )
    return CostFile(
        costs=CostModel(
            source="measured",
            expert_bytes=(96, 96),
            link=Link(bytes_per_s=10**9, latency_ns=40),
            gpu=(TableTime(tokens=(1, 8), times_ns=(11, 18)),),
            cpu=(LinearTime(fixed_ns=0),),
            dense=(LinearTime(fixed_ns=5, per_token_ns=1.5), TableTime(tokens=(1, 8), times_ns=(7, 9))),
        ),
        fingerprint=ModelFingerprint(
            family="olmoe",
            layers=2,
            decoder_layers=3,
            experts=4,
            top_k=2,
            gate_up_shape=(8, 4),
            down_shape=(4, 4),
            dense_parameters=1000,
            dtype="float32",
        ),
        provenance=CostProvenance(
            measured_on="2026-02-03",
            machine=MachineDescription(
                system="Linux", architecture="x86_64", cores=4, memory_bytes=2**33, python="3.11", torch="2"
            ),
            threads=3,
            depth=2,
            direct=True,
            context=256,
            notes="n",
        ),
        tier=Tier.DISK,
        host_computes=False,
        series=(
            MeasuredSeries(kind="expert", label="3 threads", workers=3, points=points),
            MeasuredSeries(kind="dense-decode", label="layer 1", workers=3, layer=1, points=points[:1]),
        ),
    )
