"""What the doctor thinks of environments that this one is not."""

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from cost_file_strategies import example_costs, machines, provenances
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from prescope.doctor import Finding, State
from prescope.doctor.costs import judge_age, judge_care, judge_machine
from prescope.doctor.device import judge_lock_limit
from prescope.doctor.disk import direct_refusal, examine_disk, judge_direct_reads, judge_filesystem
from prescope.doctor.memory import group_left_bytes, judge_free_memory, judge_huge_pages
from prescope.doctor.processor import judge_compiled_cache, judge_cores, judge_load, judge_threads
from prescope.doctor.versions import judge_package
from prescope.instances import CostProvenance, MachineDescription


@pytest.mark.parametrize(
    ("wanted", "extra", "state"),
    [
        ("numpy>=1.26", None, State.OK),
        ("torch>=2.6", None, State.OK),  # local versions (+cpu) count
        ("numpy>=999", None, State.BROKEN),
        ("numpy>=999", "plot", State.DEGRADED),
        ("no-such-package-anywhere", None, State.BROKEN),
        ("no-such-package-anywhere>=1", "hf", State.DEGRADED),
    ],
)
def test_packages(wanted: str, extra: str | None, state: State) -> None:
    finding = judge_package(Requirement(wanted), extra)
    assert finding.state is state
    assert (state is State.OK) == (finding.remedy == "")
    if extra and state is not State.OK:
        assert f"prescope[{extra}]" in finding.remedy


@pytest.mark.parametrize(
    ("finding", "state"),
    [
        (judge_cores(8, None), State.OK),
        (judge_cores(1, None), State.DEGRADED),
        (judge_cores(8, 2.5), State.DEGRADED),
        (judge_cores(2, 2.0), State.OK),
        (judge_load(0.1, 2), State.OK),
        (judge_load(1.1, 2), State.DEGRADED),
        (judge_load(None, 2), State.NOTE),
        (judge_threads(2, 2), State.OK),
        (judge_threads(3, 2), State.DEGRADED),
        (judge_free_memory(8 << 30, None), State.OK),
        (judge_free_memory(8 << 30, 1 << 30), State.DEGRADED),
        (judge_free_memory(1 << 30, None), State.DEGRADED),
        (judge_free_memory(None, None), State.NOTE),
        (judge_huge_pages("always [madvise] never\n"), State.OK),
        (judge_huge_pages("[always] madvise never\n"), State.OK),
        (judge_huge_pages("always madvise [never]\n"), State.DEGRADED),
        (judge_huge_pages(None), State.NOTE),
        (judge_filesystem("ext4"), State.OK),
        (judge_filesystem("tmpfs"), State.DEGRADED),
        (judge_filesystem("nfs4"), State.DEGRADED),
        (judge_filesystem("lustre"), State.DEGRADED),
        (judge_filesystem("fuse"), State.DEGRADED),
        (judge_filesystem("fuse.s3fs"), State.DEGRADED),
        (judge_filesystem("fuseblk"), State.OK),
        (judge_filesystem(None), State.OK),
        (judge_direct_reads(""), State.OK),
        (judge_direct_reads("direct reads are refused (Invalid argument)"), State.DEGRADED),
        (judge_lock_limit(resource.RLIM_INFINITY), State.OK),
        (judge_lock_limit(8 << 20), State.NOTE),
    ],
)
def test_states(finding: Finding, state: State) -> None:
    assert finding.state is state
    assert finding.found
    assert (finding.effect != "" and finding.remedy != "") or state is not State.DEGRADED


def test_a_bad_state_needs_a_remedy() -> None:
    with pytest.raises(ValueError, match="expected an effect and a remedy"):
        Finding(area="disk", name="x", state=State.DEGRADED, found="bad", effect="slow")


@pytest.mark.parametrize(("days", "state"), [(-1, "degraded"), (0, "ok"), (30, "ok"), (31, "degraded")])
def test_a_month_is_not_old(days: int, state: str) -> None:
    provenance = example_costs().provenance
    today = date.fromisoformat(provenance.measured_on) + timedelta(days=days)
    assert judge_age(provenance, today).state == state


@given(provenances(), st.integers(-400, 400))
def test_age(provenance: CostProvenance, days: int) -> None:
    measured = date(2026, 1, 1)
    today = measured + timedelta(days=days)
    finding = judge_age(replace(provenance, measured_on=measured.isoformat()), today)
    assert (finding.state is State.OK) == (0 <= days <= 30)
    assert f"{days} day" in finding.found


@given(machines, machines)
def test_machine(one: MachineDescription, other: MachineDescription) -> None:
    assert judge_machine(one, one).state is State.OK
    # Memory may differ: a virtual machine has a few megabytes more or less after every start.
    differs = replace(one, memory_bytes=1) != replace(other, memory_bytes=1)
    finding = judge_machine(one, other)
    assert (finding.state is State.DEGRADED) == differs
    if one.cores != other.cores:
        assert f"cores {one.cores}, here {other.cores}" in finding.found


@given(provenances())
def test_care(provenance: CostProvenance) -> None:
    finding = judge_care(provenance)
    faultless = not provenance.quick and provenance.direct is not False and not provenance.notes
    assert (finding.state is State.OK) == faultless


def test_compiled_code_is_kept_in_the_first_folder_that_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert judge_compiled_cache(tmp_path).state is State.OK
    # numba makes what is not there.
    assert judge_compiled_cache(tmp_path / "new" / "er").state is State.OK
    assert str(tmp_path / "a") in judge_compiled_cache(file / "x", file, tmp_path / "a", tmp_path).found
    refused = judge_compiled_cache(file, file / "x")
    assert refused.state is State.BROKEN and str(file / "x") in refused.found
    assert list(tmp_path.iterdir()) == [file]


def test_direct_reads_are_tried_and_leave_nothing(tmp_path: Path) -> None:
    assert isinstance(direct_refusal(tmp_path), str)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no file system in memory")
def test_files_in_memory_are_recognised() -> None:
    findings = {one.name: one for one in examine_disk(Path("/dev/shm"))}
    assert findings["file system"].state is State.DEGRADED


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("prescope.doctor.disk.tempfile.NamedTemporaryFile", refuse)
    findings = {one.name: one for one in examine_disk(tmp_path)}
    assert findings["direct reads"].state is State.NOTE
    assert "not tried" in findings["direct reads"].found


def test_a_group_without_a_limit_has_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, used = tmp_path / "limit", tmp_path / "used"
    monkeypatch.setattr("prescope.doctor.memory._GROUP_LIMIT", limit)
    monkeypatch.setattr("prescope.doctor.memory._GROUP_USED", used)
    assert group_left_bytes() is None
    limit.write_text("max\n")
    assert group_left_bytes() is None
    limit.write_text("1000\n")
    used.write_text("300\n")
    assert group_left_bytes() == 700
    used.write_text("1300\n")
    assert group_left_bytes() == 0


def test_quota_of_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prescope.doctor import processor

    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(processor, "_QUOTA", quota)
    assert processor._quota_cores() is None
    quota.write_text("max 100000\n")
    assert processor._quota_cores() is None
    quota.write_text("150000 100000\n")
    assert processor._quota_cores() == 1.5


def test_folders_of_compiled_code_are_those_of_numba(tmp_path: Path) -> None:
    """A program that keeps its code where numba finds place first: told, beside the source, the user's."""
    script = tmp_path / "script.py"
    script.write_text(
        "import pathlib, numba.core.caching as caching\n"
        "from prescope.doctor.processor import _cache_folders\n"
        "from prescope.solver.lead_dp import lead_dp\n"
        "kinds = caching.CacheImpl._locator_classes[:3]\n"
        "source = lead_dp.py_func.__code__.co_filename\n"
        "places = [kind(lead_dp.py_func, source).get_cache_path() for kind in kinds]\n"
        "for place, folder in zip(places, _cache_folders(), strict=True):\n"
        "    place = pathlib.Path(place)\n"
        "    assert folder == place or folder == place.parent, (folder, place)\n"
    )
    chosen = {"NUMBA_CACHE_DIR": str(tmp_path / "told"), "XDG_CACHE_HOME": str(tmp_path / "user")}
    done = subprocess.run(
        [sys.executable, str(script)], env=os.environ | chosen, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {one.name for one in tmp_path.iterdir()} <= {"script.py", "told", "user"}


def test_the_doctor_works_where_compiled_code_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refusing = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    refusing["NUMBA_CACHE_DIR"] = str(tmp_path / "file")
    words = [sys.executable, "-m", "prescope.cli", "doctor", str(tmp_path), "--json"]
    done = subprocess.run(words, env=os.environ | refusing, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert any(one["name"] == "compiled code" for one in json.loads(done.stdout)["findings"])
