"""Hypothesis strategies for everything an instance or plan file can hold."""

import numpy as np
from hypothesis import strategies as st

from prescope.formulation import (
    CostModel,
    Demand,
    Instance,
    LayerPlan,
    LinearTime,
    Link,
    Plan,
    PlanInfo,
    PredictedDemand,
    TableTime,
    Tier,
    Transfer,
)
from prescope.instances import Bounds, InstanceFile, Provenance

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
names = text.filter(bool)
durations = st.integers(0, 10**15)
optional_totals = st.none() | st.integers(0, 2**62)


@st.composite
def curves(draw: st.DrawFn) -> LinearTime | TableTime:
    if draw(st.booleans()):
        per_token = st.floats(0, 1e9) | st.integers(0, 1000)
        return LinearTime(fixed_ns=draw(durations), per_token_ns=draw(per_token))
    tokens = sorted(draw(st.sets(st.integers(1, 1000), min_size=1, max_size=4)))
    times = draw(st.lists(st.integers(0, 10**9), min_size=len(tokens), max_size=len(tokens)))
    return TableTime(tokens=tuple(tokens), times_ns=tuple(times))


@st.composite
def cost_models(draw: st.DrawFn, layers: int) -> CostModel:
    def per_layer() -> tuple[LinearTime | TableTime, ...]:
        count = draw(st.sampled_from([1, layers]))
        return tuple(draw(curves()) for _ in range(count))

    return CostModel(
        expert_bytes=tuple(draw(st.integers(1, 2**40)) for _ in range(layers)),
        link=Link(bytes_per_s=draw(st.integers(10**6, 2**50)), latency_ns=draw(durations)),
        gpu=per_layer(),
        cpu=per_layer(),
        dense=per_layer(),
        source=draw(text),
    )


@st.composite
def predictions(draw: st.DrawFn, layers: int, experts: int) -> PredictedDemand:
    shape = (draw(st.integers(1, 3)), layers, experts)
    size = shape[0] * layers * experts
    probabilities = draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))
    expected = draw(st.lists(st.floats(0, 1e15), min_size=size, max_size=size))
    return PredictedDemand(
        probabilities=np.reshape(probabilities, shape),
        expected_tokens=np.reshape(expected, shape),
        source=draw(text),
    )


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    layers, experts = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    batch = draw(st.integers(0, 300))
    size = layers * experts
    counts = draw(st.lists(st.integers(0, batch), min_size=size, max_size=size))
    residents = st.sets(st.integers(0, experts - 1))
    tier = draw(st.sampled_from(Tier))
    host_computes = tier is Tier.RAM and draw(st.booleans())
    return Instance(
        name=draw(names),
        costs=draw(cost_models(layers)),
        demand=Demand(counts=np.reshape(counts, (layers, experts)), batch_tokens=batch),
        residents=tuple(tuple(draw(residents)) for _ in range(layers)),
        slots=draw(st.integers(0 if host_computes else 1, 64)),
        lookahead=draw(st.integers(0, 8)),
        tier=tier,
        host_computes=host_computes,
        link_ready_ns=draw(durations),
        predicted=draw(st.none() | predictions(layers, experts)),
        prediction_ns=draw(st.just([]) | st.lists(durations, min_size=layers, max_size=layers)),
    )


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    optimum = draw(optional_totals)
    lower = draw(st.none() | st.integers(0, 2**62 if optimum is None else optimum))
    return Bounds(
        optimum_ns=optimum,
        optimum_by=None if optimum is None else draw(text),
        lower_bound_ns=lower,
        lower_bound_by=None if lower is None else draw(text),
    )


@st.composite
def instance_files(draw: st.DrawFn) -> InstanceFile:
    provenance = Provenance(
        source=draw(text),
        generator=draw(text),
        seed=draw(st.none() | st.integers(0, 2**63 - 1)),
        created_by=draw(text),
        notes=draw(text),
    )
    return InstanceFile(instance=draw(instances()), provenance=provenance, bounds=draw(bounds()))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of any content: whether one fits an instance is not the file's concern."""
    experts = st.lists(st.integers(0, 300), max_size=4).map(tuple)
    layers = st.builds(LayerPlan, gpu=experts, cpu=experts)
    layer = draw(st.integers(0, 20))
    transfers = st.builds(
        Transfer,
        layer=st.just(layer),
        expert=st.integers(0, 300),
        slot=st.none() | st.integers(0, 64),
        gate=st.none() | st.integers(-1, layer),
    )
    info = st.builds(
        PlanInfo,
        method=text,
        parameters=st.lists(st.tuples(text, text), max_size=3).map(tuple),
        seed=st.none() | st.integers(0, 2**63 - 1),
        makespan_ns=optional_totals,
        lower_bound_ns=optional_totals,
        time_ns=optional_totals,
    )
    return Plan(
        layers=tuple(draw(st.lists(layers, min_size=1, max_size=4))),
        transfers=tuple(draw(st.lists(transfers, max_size=5))),
        info=draw(info),
    )
