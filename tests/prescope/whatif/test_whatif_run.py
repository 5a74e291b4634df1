"""Whole what-ifs: more is never worse, several processes agree, stopped runs go on, answers as promised."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_traces import example_trace
from json_contract_whatif import WhatIfAnswer

from prescope.cli import main
from prescope.formulation import Demand, Instance, Tier, makespan_ns, preset
from prescope.instances import RoutingTrace, write_trace
from prescope.instances.budget import divide_budget, residents_of_budget
from prescope.runtime.control.rollout import rollout
from prescope.solver.online import make_gate_policy, policy_code
from prescope.whatif import (
    Lever,
    Machine,
    Outcome,
    Point,
    WhatIfSettings,
    draw_counts,
    machine_of,
    matching_overhead_ns,
    matching_pace,
    material,
    run_whatif,
    simulate,
)
from prescope.whatif.files import csv_text, draw, page_of
from prescope.whatif.run import matched
from prescope.whatif.store import PART, open_store

Answer = Callable[..., Any]


@pytest.fixture(scope="module")
def trace() -> RoutingTrace:
    return example_trace(lengths=((2, 40), (2, 40), (3, 30)), layers=6, experts=16, everything=False)


def machine(tier: Tier, layers: int) -> Machine:
    found = preset(
        "qwen3-30b-a3b@nvme-ram" if tier is Tier.DISK else "qwen3-30b-a3b@a100-pcie4", layers=layers
    )
    return Machine(name=found.name, costs=found.costs, tier=found.tier, host_computes=found.host_computes)


def settings_for(chosen: Machine, experts: int, **options: Any) -> WhatIfSettings:
    total = experts * sum(chosen.costs.expert_bytes)
    now = Point(memory_bytes=total // 4, link_bytes_per_s=chosen.costs.link.bytes_per_s, recall=0.8)
    values = {
        Lever.MEMORY: (total // 8, total // 2, total),
        Lever.SPEED: (0.5, 2.0),
        Lever.RECALL: (None, 1.0),
    }
    return WhatIfSettings(**{"now": now, "values": values, "steps": 12, "warm": 4, **options})


@pytest.mark.parametrize("tier", list(Tier))
def test_more_is_faster_and_processes_agree(trace: RoutingTrace, tier: Tier) -> None:
    chosen = machine(tier, trace.layers)
    asked = settings_for(chosen, trace.meta.experts, lookahead=2)
    found = run_whatif(trace, chosen, asked)
    for sweep in found.sweeps:
        speeds = [one.tokens_per_s for one in sweep.outcomes]
        assert speeds[-1] > speeds[0]
        assert sweep.outcomes[sweep.now] == found.now
    memory = found.sweeps[0]
    assert memory.knee is not None and memory.knee.value is not None
    if tier is Tier.RAM:
        # All experts on the device: nothing is copied and no step differs from another.
        last = memory.outcomes[-1]
        assert last.copied_bytes_per_token == 0 and last.p99_ns == last.median_ns
    assert run_whatif(trace, chosen, asked, jobs=2).outcomes == found.outcomes


def test_one_step_is_the_exact_evaluators(trace: RoutingTrace) -> None:
    chosen = machine(Tier.RAM, trace.layers)
    found = material(trace, seed=0)
    counts = draw_counts(trace, found.rows, batch=2, steps=1, seed=0)
    point = settings_for(chosen, trace.meta.experts).now
    point = replace(point, batch=2, recall=None)
    time_ns = int(simulate(chosen, point, counts, found.shares, lookahead=3).times_ns[0])
    pinned, slots = divide_budget(
        point.memory_bytes,
        row_bytes=chosen.costs.expert_bytes[0],
        layers=trace.layers,
        experts=trace.meta.experts,
        slots=None,
    )
    from prescope.formulation import PredictedDemand

    nothing = np.zeros((1, *counts[0].shape))
    instance = Instance(
        name="step",
        costs=chosen.costs,
        demand=Demand(counts=counts[0], batch_tokens=2),
        residents=residents_of_budget(found.shares, pinned),
        slots=slots,
        lookahead=3,
        predicted=PredictedDemand(probabilities=nothing, expected_tokens=nothing),
    )
    code = policy_code(make_gate_policy("intra-layer"))
    assert code is not None
    assert time_ns == makespan_ns(instance, rollout(instance, code).plan())


def test_a_stopped_run_goes_on(trace: RoutingTrace, tmp_path: Path) -> None:
    chosen = machine(Tier.RAM, trace.layers)
    asked = settings_for(chosen, trace.meta.experts)
    whole = run_whatif(trace, chosen, asked)
    seen: list[Outcome] = []
    with open_store(tmp_path, trace, chosen, asked) as store:
        with (
            pytest.raises(ValueError, match="expected .* to be free"),
            open_store(tmp_path, trace, chosen, asked),
        ):
            pass

        def stop_after_two(one: Outcome) -> None:
            store.add(one)
            seen.append(one)
            if len(seen) == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_whatif(trace, chosen, asked, on_outcome=stop_after_two)
    with open(tmp_path / PART, "a", encoding="utf-8") as stream:
        stream.write('{"memory_bytes": 12')
    more: list[Outcome] = []
    with open_store(tmp_path, trace, chosen, asked) as store:
        assert list(store.known) == seen
        again = run_whatif(trace, chosen, asked, known=store.known, on_outcome=more.append)
        assert again.outcomes == whole.outcomes and not set(more) & set(seen)
    # Other settings are another run.
    with open_store(tmp_path, trace, chosen, replace(asked, seed=1)) as store:
        assert store.known == ()


def test_files_page_and_picture(trace: RoutingTrace) -> None:
    chosen = machine(Tier.RAM, trace.layers)
    found = run_whatif(trace, chosen, settings_for(chosen, trace.meta.experts))
    rows = list(csv.DictReader(csv_text(found).splitlines()))
    assert [float(row["tokens_per_s"]) for row in rows] == [one.tokens_per_s for one in found.outcomes]
    assert {row["recall"] for row in rows} == {"none", "0.8", "1.0"}
    axes = [ax for ax in draw(found).axes if ax.get_ylabel() == "tokens/s"]
    assert len(axes) == 3
    drawn = axes[0].lines[0].get_ydata()
    assert list(drawn) == [one.tokens_per_s for one in found.sweeps[0].outcomes]
    for ax in draw(found).axes:
        bottom, top = ax.get_ylim()
        highest = max(max(line.get_ydata()) for line in ax.lines if line.get_label() != "knee")
        assert bottom == 0 and top >= 1.05 * highest
    page = page_of(found)
    assert len(page.panels) == 6 and "All times are simulated." in page.notes


def test_the_picture_of_a_grid_has_all_of_its_first_two_levers(trace: RoutingTrace) -> None:
    chosen = machine(Tier.RAM, trace.layers)
    # The machine as it is is none of the values asked for, of the third lever neither.
    values = {Lever.SPEED: (0.5, 2.0), Lever.RECALL: (None, 1.0), Lever.BATCH: (2,)}
    asked = settings_for(chosen, trace.meta.experts, values=values, grid=True, steps=3, warm=1)
    crossed = run_whatif(trace, chosen, asked)
    assert len(crossed.outcomes) == 3 * 3 * 2
    (grid,) = [ax for ax in draw(crossed).axes if ax.get_title() == "tokens/s"]
    shown = [text.get_text() for text in grid.texts]
    assert sorted(shown) == sorted(
        f"{one.tokens_per_s:.3g}" for one in crossed.outcomes if one.point.batch == 1
    )


def test_the_command_answers_as_promised(
    answer: Answer, capsys: pytest.CaptureFixture[str], trace: RoutingTrace, tmp_path: Path
) -> None:
    path = tmp_path / "routing.npz"
    write_trace(path, trace)
    words = ["whatif", path, "--steps", "6", "--warm", "2", "--link", "12,24", "--sweep", "memory,recall"]
    found = answer(WhatIfAnswer, *words, "-o", tmp_path / "out", "--grid")
    assert [one.lever for one in found.sweeps] == ["memory", "link", "recall"]
    assert {one.steps for one in found.points} == {6}
    assert found.machine == "qwen3-30b-a3b@a100-pcie4"
    names = {one.name for one in (tmp_path / "out").iterdir()}
    assert names == {"whatif.csv", "whatif.json", "whatif.html", "whatif.png"}
    assert json.loads((tmp_path / "out" / "whatif.json").read_text())["now"]["tokens_per_s"] == (
        found.now.tokens_per_s
    )
    assert main(["whatif", str(path), "--sweep", "recall", "--steps", "4", "--warm", "0"]) == 0
    said = capsys.readouterr().out
    assert "with an oracle" in said and "simulated" in said


def test_without_matplotlib_there_is_no_picture(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trace: RoutingTrace,
    tmp_path: Path,
) -> None:
    import sys

    path = tmp_path / "routing.npz"
    write_trace(path, trace)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    words = ["--sweep", "recall", "--steps", "2", "--warm", "0", "-o", str(tmp_path / "out")]
    assert main(["whatif", str(path), *words]) == 0
    assert "no picture: it needs matplotlib" in capsys.readouterr().out
    assert {one.name for one in (tmp_path / "out").iterdir()} == {"whatif.csv", "whatif.json", "whatif.html"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--sweep", "weather"], "expected --sweep among memory, link, speed, batch, recall, got weather"),
        (["--memory", "1B"], "expected memory of at least"),
        (["--preset", "x"], "expected a preset of the form 'model@machine', got 'x'"),
        (["--preset", "a@b", "--costs", "c.json"], "expected either --preset or --costs"),
        (["--costs", "c.json"], "c.json"),
        (["--batch", "0"], "--batch: expected a whole number from 1 to 100000, got '0'"),
        (["--memory-now", "0"], "--memory-now: expected an amount of memory such as 4GiB or 25%, got '0'"),
        (["--recall-now", "2"], "--recall-now: expected 'none' or a share in (0, 1] such as 0.8, got '2'"),
    ],
)
def test_refusals(
    refusal: Callable[..., str], trace: RoutingTrace, tmp_path: Path, words: list[str], says: str
) -> None:
    path = tmp_path / "routing.npz"
    write_trace(path, trace)
    assert says in refusal("whatif", path, *words)


@pytest.mark.parametrize("words", [["--memory", "1B"], ["--policy", "magic"], ["--residency", "magic"]])
def test_a_refused_run_leaves_no_folder(
    refusal: Callable[..., str], trace: RoutingTrace, tmp_path: Path, words: list[str]
) -> None:
    path, folder = tmp_path / "routing.npz", tmp_path / "out"
    write_trace(path, trace)
    disk = ["--preset", "olmoe-1b-7b@nvme-ram", "--sweep", "", "--steps", "1"]
    assert "expected" in refusal("whatif", path, *disk, *words, "-o", folder)
    assert not folder.exists()


def test_an_output_that_is_no_folder(
    refusal: Callable[..., str], trace: RoutingTrace, tmp_path: Path
) -> None:
    path = tmp_path / "routing.npz"
    write_trace(path, trace)
    for folder in (path, path / "out", Path("/proc/out")):
        said = refusal("whatif", path, "--sweep", "", "--steps", "1", "-o", folder)
        assert f"expected a folder that can be written at {folder}, got" in said
    assert list(tmp_path.iterdir()) == [path]


def test_the_machine_of_a_trace(trace: RoutingTrace) -> None:
    assert machine_of(trace).costs.layers == trace.layers
    named = machine_of(trace, named="olmoe-1b-7b@nvme-ram")
    assert named.tier is Tier.DISK and not named.host_computes
    with pytest.raises(ValueError, match="expected costs of 6 layers"):
        run_whatif(
            trace,
            machine(Tier.RAM, 5),
            settings_for(machine(Tier.RAM, 5), 16),
        )


def test_overhead_that_matches_a_measurement(trace: RoutingTrace) -> None:
    chosen = machine(Tier.RAM, trace.layers)
    asked = settings_for(chosen, trace.meta.experts, values={})
    now = run_whatif(trace, chosen, asked).now
    found = matched(trace, chosen, asked, tokens_per_s=now.tokens_per_s * 0.7)
    again = run_whatif(trace, chosen, found).now
    assert found.overhead_ns > 0 and again.tokens_per_s == pytest.approx(0.7 * now.tokens_per_s, rel=1e-2)
    with pytest.raises(ValueError, match="expected at most .* tokens/s, which is what the costs allow"):
        matched(trace, chosen, asked, tokens_per_s=now.tokens_per_s * 1.1)


@pytest.mark.parametrize("hidden", [0.0, 0.5, 0.8])
def test_overhead_of_which_copies_hide_a_part(hidden: float) -> None:
    def step_ns(overhead_ns: int) -> float:
        return 1e9 + max(0.0, 10 * overhead_ns * (1 - hidden))

    assert step_ns(matching_overhead_ns(step_ns, 1.5e9, layers=10)) == pytest.approx(1.5e9, rel=0.01)
    assert matching_overhead_ns(step_ns, 0.9e9, layers=10) == 0
    with pytest.raises(ValueError, match="above 0"):
        matching_overhead_ns(step_ns, 0.0, layers=10)


@pytest.mark.parametrize("pace", [0.3, 1.0, 2.7])
def test_pace_with_which_copies_explain_a_step(pace: float) -> None:
    def step_ns(copy: float) -> float:
        return max(6e8, 1e9 * copy) + 2e8

    found = matching_pace(step_ns, step_ns(pace))
    assert step_ns(found) == pytest.approx(step_ns(pace), rel=1e-4)
    assert matching_pace(step_ns, 1e12) == pytest.approx(4.0, rel=1e-4)
    assert matching_pace(step_ns, 1.0) == pytest.approx(0.25, rel=1e-4)
    with pytest.raises(ValueError, match="above 0"):
        matching_pace(step_ns, 0.0)
