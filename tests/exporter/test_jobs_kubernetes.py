"""Pods: what the kubelet says of them over its socket, and how it may fail."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from exporter import metrics as m
from exporter.allocation import Device
from exporter.allocations.kubernetes import SOCKET, claimed_device, plugin_device
from exporter.allocations.mapping import DIRECTORY
from exporter.allocations.process import LOGS
from exporter.collector import NodeState
from exporter.collectors.job import JobCollector
from exporter.config import Settings
from exporter.errors import CollectError, ConfigError
from exporter.pod_resources import ClaimedDevice, PluginDevice, PodResources
from exporter.readings import GpuReading, MigInstance, Process
from tests.exporter.harness import run_exporter
from tests.exporter.jobs import (
    allocated,
    cycled,
    gpu,
    holders,
    node,
    open_folder,
    plain_user,
    process,
    reasons,
    rows,
    settings,
)
from tests.exporter.kubelet import Kubelet, pod

GPUS = "nvidia.com/gpu"


@pytest.fixture
def kubelet() -> Iterator[Kubelet]:
    """A kubelet that can give out GPU-a to GPU-d."""
    with open_folder() as folder:
        made = Kubelet(folder / "kubelet.sock")
        made.offer = {GPUS: [f"GPU-{letter}" for letter in "abcd"]}
        made.start()
        yield made
        made.stop()


def four() -> NodeState:
    return node(*map(gpu, range(4)))


def asking(kubelet: Kubelet) -> Settings:
    return settings(kubelet.socket.parent, {SOCKET: kubelet.socket, LOGS: kubelet.socket.parent / "logs"})


# --- who holds what --------------------------------------------------------------------------------------
@pytest.mark.pain(41)
def test_a_pod_holds_its_gpus_while_it_is_listed_and_the_others_are_free(kubelet: Kubelet) -> None:
    kubelet.pods = [pod("train-0", {GPUS: ["GPU-a", "GPU-c"], "cpu": ["7"]}), pod("web-0", {}, namespace="shop")]
    collector = cycled(four(), asking(kubelet))
    assert allocated(collector) == {"a": 1, "b": 0, "c": 1, "d": 0}
    assert holders(collector) == {(uuid, "k8s", "", "", "train-0", "ml", "main") for uuid in "ac"}
    kubelet.pods = []
    collector.cycle()
    assert allocated(collector) == dict.fromkeys("abcd", 0)
    assert holders(collector) == set()


@pytest.mark.pain(38)
def test_pods_that_share_a_gpu_by_time_slices_are_a_row_each(kubelet: Kubelet) -> None:
    kubelet.offer = {f"{GPUS}.shared": [f"GPU-a::{n}" for n in range(4)], GPUS: ["GPU-b"]}
    kubelet.pods = [
        pod("one", {f"{GPUS}.shared": ["GPU-a::0", "GPU-a::3"]}),
        pod("two", {f"{GPUS}.shared": ["GPU-a::1"]}),
    ]
    collector = cycled(node(gpu(0), gpu(1)), asking(kubelet))
    assert allocated(collector) == {"a": 1, "b": 0}
    assert {(row[0], row[4]) for row in holders(collector)} == {("a", "one"), ("a", "two")}


@pytest.mark.pain(39)
def test_under_mps_a_pod_stands_where_the_driver_sees_its_processes(kubelet: Kubelet) -> None:
    """Device ids say one on a, two on b; the processes run the other way round, and three has none yet."""
    folder = kubelet.socket.parent
    containers = {"one": "1" * 64, "two": "2" * 64}
    (folder / "logs").mkdir()
    for name, container in containers.items():
        (folder / "logs" / f"{name}_ml_main-{container}.log").symlink_to("/nowhere")
    for pid, container in enumerate(containers.values(), 1):
        process(folder / "proc", pid, cgroup=f"0::/kubepods/pod{'0' * 32}/{container}\n")
    kubelet.offer = {GPUS: [f"GPU-{letter}::{n}" for letter in "abc" for n in range(2)]}
    kubelet.pods = [
        pod("one", {GPUS: ["GPU-a::0"]}),
        pod("two", {GPUS: ["GPU-b::0"]}),
        pod("three", {GPUS: ["GPU-b::1"]}),
    ]
    seen = {0: (2,), 1: (1,), 2: ()}
    readings = [GpuReading(gpu(n), None, processes=tuple(map(Process, pids))) for n, pids in seen.items()]
    collector = cycled(node(*map(gpu, range(3)), readings=readings), asking(kubelet))
    assert {(row[0], row[4]) for row in holders(collector)} == {("a", "two"), ("b", "one"), ("b", "three")}
    assert allocated(collector) == {"a": 1, "b": 1, "c": 0}


@pytest.mark.pain(40)
def test_a_mig_device_is_part_of_its_board(kubelet: Kubelet) -> None:
    mig = "nvidia.com/mig-1g.10gb"
    kubelet.offer = {mig: ["MIG-1", "MIG-2", "MIG-3"]}
    kubelet.pods = [pod("one", {mig: ["MIG-1"]}), pod("two", {mig: ["MIG-2"]})]
    boards = gpu(0, mig_mode="enabled"), gpu(1, mig_mode="enabled")
    readings = (
        GpuReading(boards[0], None, instances=(MigInstance(1, 0, "MIG-1"), MigInstance(2, 0, "MIG-2"))),
        GpuReading(boards[1], None, instances=(MigInstance(1, 0, "MIG-3"),)),
    )
    collector = cycled(node(*boards, readings=readings), asking(kubelet))
    assert allocated(collector) == {"a": 1, "b": 0}
    assert {(row[0], row[4]) for row in holders(collector)} == {("a", "one"), ("a", "two")}


@pytest.mark.parametrize(
    ("resource", "device", "expected"),
    [
        (GPUS, "GPU-a", (Device("uuid", "GPU-a"), False)),
        (GPUS, "GPU-a::2", (Device("uuid", "GPU-a"), True)),
        ("nvidia.com/gpu.shared", "GPU-a::2", (Device("uuid", "GPU-a"), True)),
        ("nvidia.com/h200", "GPU-a", (Device("uuid", "GPU-a"), False)),
        ("nvidia.com/mig-1g.10gb", "MIG-1", (Device("mig", "MIG-1"), False)),
        ("nvidia.com/mig-1g.10gb.shared", "MIG-1::0", (Device("mig", "MIG-1"), True)),
        ("nvidia.com/mig-1g.5gb", "MIG-GPU-a/7/0", (Device("uuid", "GPU-a"), False)),
        (GPUS, "3", (Device("index", "3"), False)),
        ("nvidia.com/mig-1g.5gb", "3:1", (Device("index", "3"), False)),
        (GPUS, "nvidia3", (Device("minor", "3"), False)),
        (GPUS, "nvidia3/gi1", (Device("minor", "3"), False)),
        (GPUS, "nvidia3/vgpu2", (Device("minor", "3"), True)),
        (GPUS, "surprise", "format"),
        (GPUS, "", "format"),
        ("nvidia.com/hostdev", "0000:3b:00.2", None),
        ("nvidia.com/GA102GL_A10", "65", None),
        ("amd.com/gpu", "GPU-a", None),
        ("example.com/nvidia.com/gpu", "GPU-a", None),
    ],
)
def test_names_of_devices(resource: str, device: str, expected: object) -> None:
    assert plugin_device(PluginDevice(resource, device)) == expected


@pytest.mark.parametrize(
    ("driver", "device", "cdi", "expected"),
    [
        ("gpu.nvidia.com", "gpu-3", (), Device("minor", "3")),
        ("gpu.nvidia.com", "gpu-3-mig-1g10gb-19-0", (), Device("minor", "3")),
        ("gpu.nvidia.com", "surprise", (), "format"),
        ("compute-domain.nvidia.com", "channel-0", (), None),
        ("", "", ("k8s.gpu.nvidia.com/claim=0f-gpu-3",), "not_supported"),
        ("", "", ("vendor.com/nic=1",), None),
    ],
)
def test_names_of_claimed_devices(driver: str, device: str, cdi: tuple[str, ...], expected: object) -> None:
    assert claimed_device(ClaimedDevice(driver, device, cdi)) == expected


def test_a_claimed_gpu_is_held_and_of_those_the_plugin_does_not_offer_nothing_is_said(kubelet: Kubelet) -> None:
    kubelet.offer = {}
    claim = {"driver_name": "gpu.nvidia.com", "pool_name": "node", "device_name": "gpu-1"}
    kubelet.pods = [pod("train-0", {}, claims=[claim])]
    collector = cycled(four(), asking(kubelet))
    assert allocated(collector) == {"b": 1}
    assert reasons(collector) == dict.fromkeys("acd", "not_found")


def test_a_device_of_no_known_name_may_be_any_gpu(kubelet: Kubelet) -> None:
    kubelet.pods = [pod("odd", {GPUS: ["surprise"]}), pod("train-0", {GPUS: ["GPU-a"]})]
    collector = cycled(four(), asking(kubelet))
    assert allocated(collector) == {"a": 1}
    assert reasons(collector) == dict.fromkeys("bcd", "format")
    assert collector.health.errors["format"] == 1


def test_a_pod_of_an_impossible_name_is_not_shown_and_frees_nothing(kubelet: Kubelet) -> None:
    kubelet.pods = [pod("x" * 300, {GPUS: ["GPU-a"]})]
    collector = cycled(four(), asking(kubelet))
    assert holders(collector) == set()
    assert reasons(collector) == dict.fromkeys("abcd", "format")


def test_a_kubelet_that_does_not_tell_what_it_can_give_out_frees_nothing(kubelet: Kubelet) -> None:
    kubelet.offer = None
    kubelet.pods = [pod("train-0", {GPUS: ["GPU-a"]})]
    collector = cycled(four(), asking(kubelet))
    assert allocated(collector) == {"a": 1}
    assert reasons(collector) == dict.fromkeys("bcd", "not_found")


# --- two schedulers --------------------------------------------------------------------------------------
def test_a_gpu_is_free_only_if_no_scheduler_says_that_it_is_or_may_be_held(kubelet: Kubelet) -> None:
    mapping = kubelet.socket.parent / "mapping"
    mapping.mkdir()
    (mapping / "1").write_text("77\n")
    kubelet.pods = [pod("train-0", {GPUS: ["GPU-a"]})]
    chosen = settings(kubelet.socket.parent, {SOCKET: kubelet.socket, DIRECTORY: mapping})
    collector = cycled(four(), chosen)
    assert allocated(collector) == {"a": 1, "b": 1, "c": 0, "d": 0}
    kubelet.stop()
    collector.cycle()
    assert allocated(collector) == {"b": 1}
    assert reasons(collector) == dict.fromkeys("acd", "not_found")
    assert collector.health.errors["not_found"] == 1


# --- when devices and GPUs come late ---------------------------------------------------------------------
@pytest.mark.pain(48)
def test_an_allocation_that_is_known_before_its_gpu_counts_as_soon_as_the_gpu_is(kubelet: Kubelet) -> None:
    kubelet.pods = [pod("train-0", {GPUS: ["GPU-a"]})]
    state = node()
    collector = cycled(state, asking(kubelet))
    assert rows(collector, m.GPU_ALLOCATED) == {}
    assert collector.health.errors["unknown_device"] == 0
    state.inventory.update([gpu(0), gpu(1)])
    assert allocated(collector) == {"a": 1, "b": 0}


@pytest.mark.pain(48)
def test_a_device_plugin_that_has_not_registered_yet_frees_nothing(kubelet: Kubelet) -> None:
    """After a restart the kubelet knows its pods from its checkpoint, and no device until the plugin comes."""
    kubelet.offer = {}
    kubelet.pods = [pod("train-0", {GPUS: ["GPU-a"]})]
    collector = cycled(four(), asking(kubelet))
    assert allocated(collector) == {"a": 1}
    assert reasons(collector) == dict.fromkeys("bcd", "not_found")
    kubelet.offer = {GPUS: [f"GPU-{letter}" for letter in "abcd"]}
    collector.cycle()
    assert allocated(collector) == {"a": 1, "b": 0, "c": 0, "d": 0}


# --- failures --------------------------------------------------------------------------------------------
def test_a_kubelet_that_restarts_comes_back_by_itself(kubelet: Kubelet) -> None:
    kubelet.pods = [pod("train-0", {GPUS: ["GPU-a"]})]
    collector = cycled(four(), asking(kubelet))
    kubelet.stop()
    with pytest.raises(CollectError) as failure:
        collector.cycle()
    assert failure.value.reason == "not_found"
    assert rows(collector, m.GPU_ALLOCATED, fresh=False) == {}
    assert reasons(collector, fresh=False) == dict.fromkeys("abcd", "not_found")
    kubelet.socket.touch()  # a socket that nobody serves yet
    with pytest.raises(CollectError) as failure:
        collector.cycle()
    assert failure.value.reason == "no_data"
    kubelet.socket.unlink()
    kubelet.start()
    collector.cycle()
    assert allocated(collector) == {"a": 1, "b": 0, "c": 0, "d": 0}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, "no_data"),
        (grpc.StatusCode.PERMISSION_DENIED, "no_permission"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "unknown"),
        (grpc.StatusCode.INTERNAL, "unknown"),
    ],
)
def test_an_error_of_the_kubelet_is_a_failure_with_a_reason(
    kubelet: Kubelet, status: grpc.StatusCode, reason: str
) -> None:
    kubelet.status = status
    collector = JobCollector(asking(kubelet), four())
    with pytest.raises(CollectError) as failure:
        collector.cycle()
    assert failure.value.reason == reason
    assert reasons(collector, fresh=False) == dict.fromkeys("abcd", reason)


def test_an_answer_that_is_no_message_is_a_failure(kubelet: Kubelet) -> None:
    kubelet.raw = b"\xff\xff\xff"
    with pytest.raises(CollectError) as failure:
        JobCollector(asking(kubelet), four()).cycle()
    assert failure.value.reason == "format"


@pytest.mark.pain(32)
def test_a_slow_kubelet_is_given_up_in_time(kubelet: Kubelet) -> None:
    kubelet.delay_s = 3.0
    began_s = time.monotonic()
    with pytest.raises(CollectError) as failure:
        PodResources(kubelet.socket).ask(0.5)
    assert failure.value.reason == "timeout"
    assert time.monotonic() - began_s < 2.0


def test_a_socket_that_may_not_be_opened_says_so(kubelet: Kubelet) -> None:
    kubelet.socket.chmod(0o600)
    if os.geteuid():
        kubelet.socket.chmod(0)
    with plain_user(), pytest.raises(CollectError) as failure:
        PodResources(kubelet.socket)._check_socket()
    assert failure.value.reason == "no_permission"


@pytest.mark.pain(33)
def test_asking_for_ever_keeps_no_file_and_no_thread(kubelet: Kubelet) -> None:
    kubelet.pods = [pod("train-0", {GPUS: ["GPU-a"]})]
    collector = JobCollector(asking(kubelet), four())

    def held() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    for _ in range(20):
        collector.cycle()
    before = held()
    for _ in range(200):
        collector.cycle()
    after = held()
    assert after[0] <= before[0] + 4
    assert after[1] <= before[1] + 2


# --- without the extra -----------------------------------------------------------------------------------
def test_without_the_extra_a_named_socket_is_refused_in_one_line(tmp_path: Path, env: dict[str, str]) -> None:
    """The library is hidden from the exporter by a module of its name that is not one."""
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError(name='grpc')\n")
    hidden = env | {"PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    ran = run_exporter("--once", "--collector.job.pod-resources=/nowhere.sock", env=hidden)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "gpu-minutes-exporter: grpc is not installed; pod resources need it: pip install 'gpu-minutes[kubernetes]'\n"
    )
    assert run_exporter("--once", env=hidden).returncode == 0


def test_the_message_of_a_missing_library_is_a_config_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ConfigError, match="gpu-minutes\\[kubernetes\\]"):
        JobCollector(settings(tmp_path, {SOCKET: tmp_path / "s"}), four())
