"""Control groups of jobs: every layout, names that lie, and the machine's own tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.cgroups import JobCgroup, hierarchy, job_cgroups, parse_process
from tests.exporter.collecting import LAW

UID = "0f3e1c8a-52b7-4c0b-9d58-6a1de0a7b2c4"
UID_ = UID.replace("-", "_")
STATIC = "8a7e3f1d2c4b5a69788796a5b4c3d2e1"
SCOPE = "system.slice/slurmstepd.scope"


def tree(root: Path, *paths: str) -> Path:
    """Folders, and files where the last part has a dot-controllers or procs name."""
    for path in paths:
        target = root / path
        if target.name.startswith("cgroup."):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("")
        else:
            target.mkdir(parents=True, exist_ok=True)
    return root


def test_a_unified_tree_gives_jobs_and_pods_in_order(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        "cgroup.controllers",
        f"{SCOPE}/job_77/step_0/user/task_0",
        f"{SCOPE}/job_9/step_batch",
        f"{SCOPE}/system",
        "system.slice/node-a_slurmstepd.scope/job_78",
        "hpc.slice/hpc-gpu.slice/slurmstepd.scope/job_79",
        "system.slice/sshd.service",
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-aa.scope",
        f"kubepods.slice/kubepods-pod{STATIC}.slice",
        "kubepods.slice/kubepods-besteffort.slice",
    )
    assert hierarchy(root) == "v2"
    assert [(job.kind, job.job_id) for job in job_cgroups(root)] == [
        ("slurm", "79"),
        ("k8s", UID),
        ("k8s", STATIC),
        ("slurm", "78"),
        ("slurm", "77"),
        ("slurm", "9"),
    ]
    assert all((root / job.path).is_dir() for job in job_cgroups(root))


@pytest.mark.parametrize(
    "path",
    [
        f"kubepods/burstable/pod{UID}",
        f"kubepods/pod{UID}",
        f"kubelet/kubepods/besteffort/pod{UID}",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{UID_}.slice",
    ],
)
def test_pods_of_every_driver(tmp_path: Path, path: str) -> None:
    root = tree(tmp_path, "cgroup.controllers", path)
    assert list(job_cgroups(root)) == [JobCgroup("k8s", UID, "", path)]


def test_on_v1_a_job_stands_once_with_its_user_and_its_devices(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        "memory/cgroup.procs",
        *(f"{c}/slurm/uid_1001/job_77/step_0" for c in ("memory", "freezer", "devices")),
        "freezer/slurm_node-a/uid_1002/job_78",
    )
    assert hierarchy(root) == "v1"
    assert list(job_cgroups(root)) == [
        JobCgroup("slurm", "77", "1001", "devices/slurm/uid_1001/job_77"),
        JobCgroup("slurm", "78", "1002", "freezer/slurm_node-a/uid_1002/job_78"),
    ]


def test_hybrid_and_none(tmp_path: Path) -> None:
    assert hierarchy(tmp_path / "gone") == "none"
    assert list(job_cgroups(tmp_path / "gone")) == []
    assert hierarchy(tree(tmp_path, "memory/cgroup.procs", "unified/cgroup.controllers")) == "hybrid"


def test_one_job_under_two_daemons_stands_once(tmp_path: Path) -> None:
    root = tree(tmp_path, "cgroup.controllers", *(f"system.slice/{n}_slurmstepd.scope/job_5" for n in "ab"))
    assert [job.path for job in job_cgroups(root)] == ["system.slice/a_slurmstepd.scope/job_5"]


def test_what_users_can_name_is_no_job(tmp_path: Path) -> None:
    forged = "user.slice/user-1000.slice/user@1000.service/app.slice/slurmstepd.scope/job_1"
    odd = [f"{SCOPE}/job_{name}" for name in ("", "x", "1;2", "１", "9" * 21, 'a"b')]
    root = tree(tmp_path, "cgroup.controllers", forged, "user.slice/slurmstepd.scope/job_2", *odd, f"{SCOPE}/job_3")
    (root / SCOPE / "job_4").symlink_to(root / SCOPE / "job_3")
    assert [job.job_id for job in job_cgroups(root)] == ["3"]
    assert parse_process(f"0::/{forged}\n") is None


@pytest.mark.parametrize(
    ("text", "job"),
    [
        (f"0::/{SCOPE}/job_77/step_0/user/task_0\n", JobCgroup("slurm", "77", "", f"{SCOPE}/job_77")),
        (f"0::/{SCOPE}/job_77 (deleted)\n", JobCgroup("slurm", "77", "", f"{SCOPE}/job_77 (deleted)")),
        (
            "0::/system.slice/n1_slurmstepd.scope/job_8/step_extern\n",
            JobCgroup("slurm", "8", "", "system.slice/n1_slurmstepd.scope/job_8"),
        ),
        ("0::/../slurmstepd.scope/job_7/step_0\n", JobCgroup("slurm", "7", "", "../slurmstepd.scope/job_7")),
        (
            "9:name=systemd:/\n4:memory:/slurm/uid_1000/job_77/step_0/task_0\n0::/\n",
            JobCgroup("slurm", "77", "1000", "slurm/uid_1000/job_77"),
        ),
        (
            f"0::/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{'a' * 64}.scope\n",
            JobCgroup("k8s", UID, "", f"kubepods.slice/kubepods-pod{UID_}.slice"),
        ),
        (f"0::/../../pod{UID}/{'b' * 64}\n", JobCgroup("k8s", UID, "", f"../../pod{UID}")),
        (
            f"0::/kubepods/pod{UID}/c/{SCOPE}/job_5/step_0\n",
            JobCgroup("slurm", "5", "", f"kubepods/pod{UID}/c/{SCOPE}/job_5"),
        ),
        (  # a job may make control groups below its own
            f"0::/{SCOPE}/job_77/step_0/user/{SCOPE}/job_999\n",
            JobCgroup("slurm", "77", "", f"{SCOPE}/job_77"),
        ),
        ("0::/user.slice/user-0.slice/session-1.scope\n", None),
        ("0::/\n", None),
        ("", None),
        ("0::/machine.slice/machine-libpod_pod_" + "a" * 64 + ".slice\n", None),
        (f"0::/{SCOPE}\n", None),
    ],
)
def test_the_job_of_a_process(text: str, job: JobCgroup | None) -> None:
    assert parse_process(text) == job


@LAW
@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    assert parse_process(text) is None or text


@LAW
@given(st.lists(st.sampled_from(["..", "slurm", "uid_1", "job_2", "slurmstepd.scope", f"pod{UID}", "user.slice", ""])))
def test_what_it_finds_is_a_part_of_the_path(parts: list[str]) -> None:
    path = "/".join(parts)
    job = parse_process(f"0::/{path}\n")
    if job is not None:
        assert path.strip("/").startswith(job.path)
        assert job.job_id in ("2", UID)
        assert "user.slice" not in job.path


def test_this_machine_has_readable_control_groups() -> None:
    root = Path("/sys/fs/cgroup")
    assert hierarchy(root) in ("v1", "v2", "hybrid", "none")
    jobs = list(job_cgroups(root))
    assert len({(job.kind, job.job_id) for job in jobs}) == len(jobs)
    own = Path("/proc/self/cgroup").read_text()
    assert parse_process(own) is None or "job_" in own or "pod" in own
