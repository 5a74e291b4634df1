"""Damaged files of every kind: each is refused as such, or means exactly what it says.

`make test` tries some of every kind, the slow test and ``python -m benchmarks.mutants`` thousands.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from mutation_trials import TRIALS, run_trial

MUTANTS = int(os.environ.get("MUTANTS", "60"))
# Ways of damage that leave most of a file as it was: some of their mutants have to be acceptable.
GENTLE = ("structure", "arrays", "meta")


@pytest.mark.parametrize("name", TRIALS)
def test_mutants_are_refused_or_mean_what_they_say(tmp_path: Path, name: str) -> None:
    outcome = run_trial(name, tmp_path / "x", range(MUTANTS))
    assert not outcome.failures
    assert outcome.verdicts["refused"] > 0.4 * MUTANTS
    if name.endswith(GENTLE):
        assert outcome.verdicts["refused"] < MUTANTS, "the damage is too coarse to test anything"


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIALS)
def test_thousands_of_mutants(tmp_path: Path, name: str) -> None:
    """Other seeds than those above: 10,000 instances, plans and indices; 5,000 traces and logs; costs."""
    outcome = run_trial(name, tmp_path / "x", range(MUTANTS, MUTANTS + 1500))
    assert not outcome.failures
    assert sum(outcome.verdicts.values()) == 1500


def test_the_judge_notices_another_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that change what they read, or fail in a way of their own, are caught."""
    import json_trials
    import log_trials
    import trace_trials

    from prescope.instances import InstanceFile, RoutingTrace, read_instance, read_trace

    def other_log(path: Path) -> RoutingTrace:
        trace = read_log(path)
        return replace(trace, phase=1 - trace.phase)

    def other_instance(path: Path) -> InstanceFile:
        file = read_instance(path)
        return replace(file, instance=replace(file.instance, slots=file.instance.slots + 1))

    def careless(path: Path) -> RoutingTrace:
        path.read_bytes().decode()
        return read_trace(path)

    read_log = log_trials.READ["csv"]
    monkeypatch.setitem(log_trials.READ, "csv", other_log)
    monkeypatch.setattr(json_trials, "read_instance", other_instance)
    monkeypatch.setattr(trace_trials, "read_trace", careless)
    for name, found in (
        ("csv log: structure", "another meaning"),
        ("instance: structure", "another meaning"),
        ("trace: bytes", "UnicodeDecodeError"),
    ):
        failures = run_trial(name, tmp_path / "x", range(40)).failures
        assert failures and found in failures[0], name
