"""Which GPUs pods hold, from the kubelet of this node.

Names of devices, with the source of each:
    * `GPU-UUID`, `MIG-UUID`, and with `::N` after it a share: NVIDIA's device plugin; old names of MIG devices hold the
      UUID of the board (`MIG-GPU-UUID/GI/CI`);
    * `N`, or `N:M` for a MIG device: the same by index;
    * `nvidiaN`, and after it `/giM` or `/vgpuM` for a MIG device or a share: the plugin of Google's clusters, by the
      name of the device file;
    * `gpu-N`, `gpu-N-mig-…`: NVIDIA's driver for resource claims, by the number of the device file.

Which GPUs are free is known of those that the kubelet can give out through a device plugin; of others nothing is said.
"""

from __future__ import annotations

import re
from typing import Final

from exporter.allocation import Allocations, AllocationSource, Claim, Device, Holder
from exporter.collector import NodeState
from exporter.config import Settings, optional_path
from exporter.errors import Reason
from exporter.pod_resources import ClaimedDevice, Container, PluginDevice, PodResources

SOCKET = optional_path(
    "collector.job.pod-resources",
    "socket of the kubelet's pod-resources service, /var/lib/kubelet/pod-resources/kubelet.sock; needs the extra "
    "kubernetes",
    "SOCKET",
)
_DEADLINE_S: Final = 4.0  # both questions together; below the collector's own
_VENDOR: Final = "nvidia.com/"
_RESOURCE = re.compile(r"nvidia\.com/(?:gpu|mig-[0-9a-z.+-]+?)(?:\.shared)?")
_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,90}")
_MIG = re.compile(r"MIG-[0-9A-Za-z-]{1,90}")
_MIG_OLD = re.compile(r"MIG-(GPU-[0-9A-Za-z-]{1,90})/\d+/\d+")
_INDEX = re.compile(r"(\d{1,3})(?::\d{1,2})?")
_FILE = re.compile(r"nvidia(\d{1,3})(?:/gi\d+)?(/vgpu\d+)?")
_CLAIM_DRIVER: Final = "gpu.nvidia.com"
_CLAIM_CDI: Final = "k8s.gpu.nvidia.com/"
_CLAIMED = re.compile(r"gpu-(\d{1,3})(?:-mig-.*)?")
_NAME = re.compile(r"[a-z0-9.-]{1,253}")


def plugin_device(device: PluginDevice) -> tuple[Device, bool] | Reason | None:
    """The GPU behind a device of a plugin.

    Returns:
        The device and whether it is a share; None if it is no GPU of NVIDIA; "format" if its name says nothing.
    """
    if not device.resource.startswith(_VENDOR):
        return None
    name, share, _ = device.id.partition("::")
    if _UUID.fullmatch(name):
        return Device("uuid", name), bool(share)
    if found := _MIG_OLD.fullmatch(name):
        return Device("uuid", found[1]), bool(share)
    if _MIG.fullmatch(name):
        return Device("mig", name), bool(share)
    if not _RESOURCE.fullmatch(device.resource):
        return None  # network cards and passed-through devices have names of NVIDIA, too
    if found := _INDEX.fullmatch(name):
        return Device("index", str(int(found[1]))), bool(share)
    if found := _FILE.fullmatch(name):
        return Device("minor", str(int(found[1]))), bool(share or found[2])
    return "format"


def claimed_device(device: ClaimedDevice) -> Device | Reason | None:
    """The GPU behind a resource claim; None if it is none of NVIDIA, else why it cannot be told."""
    if device.driver == _CLAIM_DRIVER:
        found = _CLAIMED.fullmatch(device.device)
        return Device("minor", str(int(found[1]))) if found else "format"
    if not device.driver and any(name.startswith(_CLAIM_CDI) for name in device.cdi):
        return "not_supported"
    return None


class KubernetesSource(AllocationSource):
    """Asks the kubelet which container holds which device."""

    name = "kubernetes"
    options = (SOCKET,)
    reasons = ("format", "no_data", "no_permission", "not_found", "not_supported", "timeout", "unknown")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        socket = settings[SOCKET]
        self._kubelet = None if socket is None else PodResources(socket)

    def read(self, node: NodeState) -> Allocations | None:
        """What the kubelet says now; None without a socket."""
        if self._kubelet is None:
            return None
        answer = self._kubelet.ask(_DEADLINE_S)
        claims: list[Claim] = []
        doubts: list[Reason] = []
        for container in answer.containers:
            claims += _claims(container, doubts)
        offered = [plugin_device(device) for device in answer.allocatable or ()]
        free = frozenset(found[0] for found in offered if isinstance(found, tuple))
        if doubts:  # a device that may be any GPU is held, so no GPU is free for sure
            return Allocations(tuple(claims), rest=doubts[0], dropped=tuple(doubts))
        return Allocations(tuple(claims), free)


def _claims(container: Container, doubts: list[Reason]) -> list[Claim]:
    """What one container holds: whole devices, and shares."""
    names = (container.namespace, container.pod, container.name)
    whole: set[Device] = set()
    shares: set[Device] = set()
    for device in container.devices:
        found = plugin_device(device)
        if isinstance(found, tuple):
            (shares if found[1] else whole).add(found[0])
        elif found is not None:
            doubts.append(found)
    for claimed in container.claimed:
        told = claimed_device(claimed)
        if isinstance(told, Device):
            whole.add(told)
        elif told is not None:
            doubts.append(told)
    if (whole or shares) and not all(_NAME.fullmatch(name) for name in names):
        doubts.append("format")
        return []
    holder = Holder("k8s", namespace=container.namespace, pod=container.pod, container=container.name)
    groups = ((whole, False), (shares - whole, True))
    return [Claim(holder, frozenset(devices), shared) for devices, shared in groups if devices]


SOURCE = KubernetesSource
