"""The contract and the pages hold the same families, and every name follows the rules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.collectors import discover
from exporter.errors import REASONS
from exporter.family import PREFIX, UNITS, Family
from exporter.metrics import FAMILIES, GPU_INFO, GPU_WORKLOAD_INFO
from tests.exporter.fake_nvml.models import make_v100
from tests.exporter.fake_nvml.script import GPU_IS_LOST, FakeDriver
from tests.exporter.families import ASSERTED_ELSEWHERE, TWO_CYCLES
from tests.exporter.harness import ROOTS, Page, run_exporter
from tests.exporter.kernel_log import KernelLog

_UNITS = {"", *UNITS}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_rules(family: Family) -> None:
    assert re.fullmatch(r"gpuminutes_[a-z][a-z0-9_]*[a-z]", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert family.name.endswith("_info") == (family.kind == "info" and "reason" not in family.labels)
    assert family.unit in _UNITS
    if family.unit:
        assert family.name.removesuffix("_total").endswith("_" + family.unit)
    assert family.help.endswith(".") and "\n" not in family.help
    assert len(set(family.labels)) == len(family.labels)


@pytest.mark.parametrize("family", [f for f in FAMILIES if "uuid" in f.labels], ids=lambda f: f.name)
def test_gpu_labels_are_uuid_and_slot_and_nothing_that_changes(family: Family) -> None:
    assert family.labels[:2] == ("uuid", "slot")
    assert family is GPU_INFO or "index" not in family.labels
    workload = {"job_id", "user", "pod", "namespace", "container"}
    assert family is GPU_WORKLOAD_INFO or not workload & set(family.labels)


def test_names_are_unique() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_every_family_can_appear_and_nothing_else_does(driver: FakeDriver, env: dict[str, str], tmp_path: Path) -> None:
    """A cut, an old and a lost GPU, a process, a job and an XID in the kernel's log: the page then holds every family
    of the contract but those that need two cycles, which are asserted where rates are."""
    driver.state.gpus = 3
    keep = f"--path.inventory={tmp_path / 'inventory.json'}"
    run_exporter("--once", keep, env=env)
    driver.gpu(1).every_return = GPU_IS_LOST
    make_v100(driver.gpu(2))
    driver.gpu(0).cut("1g.10gb")
    driver.gpu(0).activity.run((2, 2**30), gi=3)
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("4711\n")
    log = KernelLog(tmp_path / "kmsg")
    log.say("NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.")
    options = ["--once", keep, *ROOTS, f"--collector.job.directory={jobs}", f"--collector.kmsg.path={log.path}"]
    options.append("--collector.nvml.process-memory")
    page = Page(run_exporter(*options, env=env).stdout)
    by_name = {family.name: family for family in FAMILIES}
    seen: set[str] = set()
    for parsed in page.families.values():
        name = parsed.name + ("_total" if parsed.type == "counter" else "")
        family = by_name[name]
        assert (parsed.type, parsed.documentation) == (family.type, family.help)
        for sample in parsed.samples:
            assert sample.name == name
            assert tuple(sorted(sample.labels)) == tuple(sorted(family.labels))
            if "reason" in sample.labels and not family.field.startswith("gpu_clock_event_"):
                assert sample.labels["reason"] in REASONS  # the other reasons are those of the clocks
            if family.kind == "info":
                assert sample.value == 1
            if family.kind == "flag":
                assert sample.value in (0, 1)
        seen.add(name)
    later = TWO_CYCLES | {name for name in ASSERTED_ELSEWHERE if name.endswith("_active_ratio")}
    assert set(by_name) - seen == {PREFIX + name for name in later}


def test_the_contract_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; import exporter.metrics; "
        "print([m for m in sys.modules if m.split('.')[0] in ('prometheus_client', 'pynvml') "
        "or m.startswith('exporter.') and m not in ('exporter.metrics', 'exporter.family')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_collectors_are_found_by_their_files() -> None:
    assert list(discover()) == ["disk", "host", "job", "kmsg", "nfs", "nvml", "proc", "psi", "xid"]
