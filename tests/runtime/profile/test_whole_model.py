"""Everything is measured, in order, told about, and becomes a file that reads back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_time import FakeClock
from stored_experts import MemoryExperts
from tiny_models import random_model

from prescope.formulation import Tier
from prescope.instances import CostFile, read_costs, write_costs
from prescope.runtime.profile import fingerprint_of, profile_model, quick_settings, usable_cores
from prescope.runtime.profile.copy_times import time_copies
from prescope.runtime.profile.expert_times import time_experts
from prescope.runtime.profile.stored_experts import experts_in_memory
from prescope.runtime.profile.timing import Effort

SETTINGS = replace(
    quick_settings(),
    expert_tokens=(1, 3, 8),
    decode_tokens=(1, 2),
    prefill_tokens=(2, 4),
    context=3,
    depths=(1, 2),
    read_bytes=(4096, 8192),
    copy_bytes=(4096, 8192),
    effort=Effort(repeats=3, budget_ns=0),
)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    assert torch.get_num_threads() == 1, "measuring must leave the threads as they were"
    torch.set_num_threads(before)


def measured(tmp_path: Path, **settings: Any) -> tuple[Any, CostFile, list[tuple[str, int, int]]]:
    model, told = random_model(layers=3), []
    weights = tmp_path / "weights"
    weights.write_bytes(bytes(20_000))
    (tmp_path / "small").write_bytes(b"")
    file = profile_model(
        model,
        MemoryExperts(model),
        [tmp_path / "small", weights],
        replace(SETTINGS, **settings),
        observe=lambda *what: told.append(what),
        clock=FakeClock(tick_ns=1000),
    )
    return model, file, told


def test_a_profile_is_complete_and_reads_back(tmp_path: Path) -> None:
    model, file, told = measured(tmp_path)
    assert file.fingerprint == fingerprint_of(model)
    assert (file.tier, file.host_computes, file.provenance.quick) == (Tier.DISK, False, True)
    # With a clock that ticks when read, two reads in flight take half the time each.
    assert (file.provenance.depth, file.provenance.context, file.provenance.direct) == (2, 3, False)
    assert "page cache" in file.provenance.notes and str(tmp_path) not in file.provenance.notes
    kinds = [(one.kind, one.workers) for one in file.series]
    threads = file.provenance.threads
    assert kinds == [
        ("expert-read", 1),
        ("read", 1),
        ("read", 2),
        *(("expert", count) for count in sorted({threads, usable_cores()})),
        ("expert-while-reading", threads),
        ("copy", threads),
        *[("dense-decode", threads)] * 2,
        *[("dense-prompt", threads)] * 2,
    ]
    assert [at for _, at, _ in told] == list(range(len(told))) and told[-1][1] == told[-1][2]
    write_costs(tmp_path / "costs.json", file)
    again = read_costs(tmp_path / "costs.json")
    assert again == file
    again.require_model(fingerprint_of(random_model(layers=3)))
    with pytest.raises(ValueError, match="layers: expected 3, got 2"):
        again.require_model(fingerprint_of(random_model(layers=2)))


def test_the_full_programme_measures_all_threads(tmp_path: Path) -> None:
    _, file, _ = measured(tmp_path, quick=False)
    counts = sorted({file.provenance.threads, usable_cores()})
    for kind in ("expert", "copy"):
        assert [one.workers for one in file.series if one.kind == kind] == counts
    assert {one.workers for one in file.series if one.kind == "dense-decode"} == set(counts)


def test_a_busy_machine_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prescope.runtime.profile import whole_model

    assert "busy" not in measured(tmp_path)[1].provenance.notes
    monkeypatch.setattr(whole_model, "_NOISY_SPREAD", -1.0)
    assert "the machine was busy" in measured(tmp_path)[1].provenance.notes


def test_the_model_is_as_before_and_computes_as_before(tmp_path: Path) -> None:
    ids = torch.arange(6, 12)[None]
    with torch.no_grad():
        wanted = random_model(layers=3)(ids).logits
        model, _, _ = measured(tmp_path)
        assert torch.equal(model(ids).logits, wanted)


def test_experts_take_turns_and_threads_are_set() -> None:
    model = random_model(layers=1, experts=4)
    store, module = MemoryExperts(model), model.model.layers[0].mlp.experts
    seen: list[int] = []
    gate = module._apply_gate

    def watched(values: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        result: torch.Tensor = gate(values)
        return result

    module._apply_gate = watched
    series = time_experts(
        module, experts_in_memory(store, 0), SETTINGS, threads=2, reading=3, clock=FakeClock(tick_ns=5)
    )
    assert set(seen) == {2} and len(seen) == 3 * 4
    assert (series.kind, series.label, series.xs) == (
        "expert-while-reading",
        "2 threads, 3 in flight",
        (1, 3, 8),
    )


def test_copies_of_every_size() -> None:
    series = time_copies(SETTINGS, threads=1, clock=FakeClock(tick_ns=7))
    assert (series.kind, series.xs, series.medians_ns) == ("copy", (4096, 8192), (7, 7))
