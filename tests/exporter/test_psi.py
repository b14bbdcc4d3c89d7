"""Pressure of the node and of its jobs, on every kind of kernel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.collectors.psi import JOBS, RESOURCES, PsiCollector, parse_pressure
from exporter.config import CGROUP, PROCFS, Settings
from exporter.errors import CollectError
from tests.exporter.collecting import LAW, NODE_EXPORTER, expected, node, put, roots, rows, unavailable
from tests.exporter.harness import CGROUP as CGROUP_V2
from tests.exporter.harness import HERE, PROC, ROOTS, Page, command, environment

POD = "0f3e1c8a-52b7-4c0b-9d58-6a1de0a7b2c4"


def collector(proc: Path = PROC, cgroup: Path = CGROUP_V2) -> PsiCollector:
    made = PsiCollector(roots(proc, cgroup=cgroup), node())
    made.cycle()
    return made


def test_pressure_is_read_in_seconds() -> None:
    psi = collector()
    found = rows(psi, m.NODE_PRESSURE_STALL)
    assert found["io", "some"] == 98.765432
    assert found["memory", "full"] == 0.000125
    assert len(found) == 6
    assert list(psi.samples(False, 0.0)) == []


def test_the_numbers_are_those_of_node_exporter() -> None:
    found = rows(collector(NODE_EXPORTER / "proc"), m.NODE_PRESSURE_STALL)
    word = {"some": "waiting", "full": "stalled"}
    theirs = {
        name: value
        for (name, _), value in expected(
            *(f"node_pressure_{resource}_{w}_seconds_total" for resource in RESOURCES for w in word.values())
        ).items()
    }
    assert len(theirs) == 5  # they leave out `full` of cpu
    for (resource, kind), value in found.items():
        if (resource, kind) != ("cpu", "full"):
            assert value == pytest.approx(theirs[f"node_pressure_{resource}_{word[kind]}_seconds_total"], rel=1e-12)


def test_each_job_and_pod_has_its_own() -> None:
    found = rows(collector(), m.JOB_PRESSURE_STALL)
    assert found["101", "io", "some"] == 42.000001
    assert found["101", "cpu", "full"] == 0.61
    assert found[POD, "io", "full"] == 1.0
    assert len(found) == 12


@pytest.mark.pain(43)
def test_a_job_s_series_end_with_its_control_group(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    shutil.copytree(CGROUP_V2, root)
    psi = collector(cgroup=root)
    assert {labels[0] for labels in rows(psi, m.JOB_PRESSURE_STALL)} == {"101", POD}
    shutil.rmtree(root / "system.slice")
    psi.cycle()
    assert {labels[0] for labels in rows(psi, m.JOB_PRESSURE_STALL)} == {POD}
    assert sum(psi.health.errors.values()) == 0


@pytest.mark.pain(42)
def test_a_job_that_stands_twice_gives_one_series(tmp_path: Path) -> None:
    shutil.copytree(CGROUP_V2, tmp_path / "c")
    again = tmp_path / "c" / "system.slice" / "z_slurmstepd.scope"
    shutil.copytree(tmp_path / "c" / "system.slice" / "slurmstepd.scope", again)
    assert len(rows(collector(cgroup=tmp_path / "c"), m.JOB_PRESSURE_STALL)) == 12  # `rows` refuses doubles


def test_a_broken_file_of_one_job_costs_that_file_alone(tmp_path: Path) -> None:
    shutil.copytree(CGROUP_V2, tmp_path / "c")
    put(tmp_path / "c/system.slice/slurmstepd.scope/job_101/io.pressure", b"\xff\x00 total=?")
    psi = collector(cgroup=tmp_path / "c")
    assert len(rows(psi, m.JOB_PRESSURE_STALL)) == 10
    assert psi.health.errors["format"] == 1


@pytest.mark.parametrize("tree", ["cgroup_v1", "cgroup_hybrid"])
def test_control_groups_of_v1_have_no_pressure_and_say_so_once(tree: str) -> None:
    psi = collector(cgroup=HERE / "data" / tree)
    assert rows(psi, m.JOB_PRESSURE_STALL) == {}
    assert unavailable(psi) == {"job_pressure_stall_seconds_total": "not_supported"}
    assert len(rows(psi, m.NODE_PRESSURE_STALL)) == 6


def test_no_control_groups_and_none_wanted(tmp_path: Path) -> None:
    assert unavailable(collector(cgroup=tmp_path)) == {"job_pressure_stall_seconds_total": "not_found"}
    psi = PsiCollector(Settings({PROCFS: PROC, CGROUP: CGROUP_V2, JOBS: False}), node())
    psi.cycle()
    assert rows(psi, m.JOB_PRESSURE_STALL) == {}
    assert unavailable(psi) == {}


@pytest.mark.pain(12)
def test_a_kernel_without_pressure_files_is_no_failure(tmp_path: Path) -> None:
    psi = collector(tmp_path)
    assert rows(psi, m.NODE_PRESSURE_STALL) == {}
    assert rows(psi, m.JOB_PRESSURE_STALL) == {}
    assert unavailable(psi) == {
        **{f"node_pressure_stall_seconds_total/{resource}": "not_supported" for resource in RESOURCES},
        "job_pressure_stall_seconds_total": "not_supported",
    }


@pytest.mark.pain(12)
def test_pressure_switched_off_at_boot_reads_as_not_supported() -> None:
    """With psi=0 the files are there and their reading fails with EOPNOTSUPP: made by strace in the real process."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is missing: install it with `apt-get install strace`"
    line = [strace, "-f", "-qq", "-o", "/dev/null", "-P", str(PROC / "pressure" / "io")]
    line += ["-e", "trace=read", "-e", "inject=read:error=EOPNOTSUPP", *command("--once", *ROOTS)]
    ran = subprocess.run(line, env=environment(None, None), capture_output=True, text=True, timeout=60, check=True)
    page = Page(ran.stdout)
    assert page.reasons()["node_pressure_stall_seconds_total/io"] == "not_supported"
    assert {dict(labels)["resource"] for labels in page.find("node_pressure_stall_seconds_total")} == {"cpu", "memory"}
    assert page.value("collect_success", collector="psi") == 1


def test_a_pressure_file_in_another_format_fails_the_cycle(tmp_path: Path) -> None:
    put(tmp_path / "pressure" / "cpu", "some 1 2 3\n")
    with pytest.raises(CollectError, match="no total="):
        collector(tmp_path)


@LAW
@given(st.text() | st.from_regex(r"(some|full) avg10=0.00 total=[0-9]{0,25}\n?"))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        found = parse_pressure(text)
    except CollectError as exc:
        assert exc.reason == "format"
    else:
        assert found and set(found) <= {"some", "full"}
        assert all(0 <= total_us <= 2**62 for total_us in found.values())


def test_this_machine() -> None:
    psi = PsiCollector(Settings(), node())
    psi.cycle()
    before = rows(psi, m.NODE_PRESSURE_STALL)
    psi.cycle()
    after = rows(psi, m.NODE_PRESSURE_STALL)
    assert all(after[key] >= value for key, value in before.items())
    assert bool(before) == Path("/proc/pressure/io").exists()
