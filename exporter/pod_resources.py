"""The kubelet's pod-resources service, version v1, as a client sees it.

Needs the extra `kubernetes` (grpcio, protobuf), which is imported only where a socket is named. The messages hold the
fields that are wanted and no others; those of newer kubelets are skipped by protobuf. Names and numbers are those of
k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

import importlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from exporter.errors import CollectError, ConfigError, Reason

_PACKAGE: Final = "v1"
_SERVICE: Final = f"/{_PACKAGE}.PodResourcesLister"
_MAX_BYTES: Final = 16 * 1024 * 1024
# Message -> its fields: name, number, the message it holds or "" for a string, whether it repeats.
_MESSAGES: Final[dict[str, tuple[tuple[str, int, str, bool], ...]]] = {
    "ListPodResourcesResponse": (("pod_resources", 1, "PodResources", True),),
    "AllocatableResourcesResponse": (("devices", 1, "ContainerDevices", True),),
    "PodResources": (
        ("name", 1, "", False),
        ("namespace", 2, "", False),
        ("containers", 3, "ContainerResources", True),
    ),
    "ContainerResources": (
        ("name", 1, "", False),
        ("devices", 2, "ContainerDevices", True),
        ("dynamic_resources", 5, "DynamicResource", True),
    ),
    "ContainerDevices": (("resource_name", 1, "", False), ("device_ids", 2, "", True)),
    "DynamicResource": (("claim_resources", 4, "ClaimResource", True),),
    "ClaimResource": (
        ("cdi_devices", 1, "CDIDevice", True),
        ("driver_name", 2, "", False),
        ("device_name", 4, "", False),
    ),
    "CDIDevice": (("name", 1, "", False),),
}


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device that a device plugin offers.

    Attributes:
        resource: "nvidia.com/gpu".
        id: the plugin's name of the device.
    """

    resource: str
    id: str


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device that a container holds through a resource claim.

    Attributes:
        driver: the driver's name; "" from a kubelet that does not say.
        device: the driver's name of the device; "" likewise.
        cdi: names by which the container runtime knows it.
    """

    driver: str
    device: str
    cdi: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """A container and what it holds."""

    namespace: str
    pod: str
    name: str
    devices: tuple[PluginDevice, ...]
    claimed: tuple[ClaimedDevice, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the kubelet says.

    Attributes:
        containers: every container that holds devices.
        allocatable: every device that can be given out or is; None if the kubelet does not tell.
    """

    containers: tuple[Container, ...]
    allocatable: tuple[PluginDevice, ...] | None


class PodResources:
    """Asks the kubelet behind a socket. Each question opens the socket anew, since a kubelet that starts makes another.

    Args:
        socket: path of the unix socket.

    Raises:
        ConfigError: the extra is not installed.
    """

    def __init__(self, socket: Path) -> None:
        try:
            self._grpc: Any = importlib.import_module("grpc")
            self._types = _build_messages()
            self._decode_error: Any = importlib.import_module("google.protobuf.message").DecodeError
        except ImportError as exc:
            raise ConfigError(
                f"{exc.name} is not installed; pod resources need it: pip install 'gpu-minutes[kubernetes]'"
            ) from exc
        self._socket = socket.absolute()

    def ask(self, deadline_s: float) -> Answer:
        """Asks once.

        Raises:
            CollectError: there is no socket, it may not be opened, or no answer that can be read came in time.
        """
        end_s = time.monotonic() + deadline_s
        self._check_socket()
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", _MAX_BYTES)]
        with self._grpc.insecure_channel(f"unix:{self._socket}", options=options) as channel:
            pods = self._call(channel, "List", "ListPodResourcesResponse", end_s).pod_resources
            try:
                offer = self._call(channel, "GetAllocatableResources", "AllocatableResourcesResponse", end_s)
            except CollectError as exc:
                if exc.reason != "not_supported":  # before Kubernetes 1.23, or switched off
                    raise
                return Answer(tuple(_containers(pods)), None)
        return Answer(tuple(_containers(pods)), tuple(_plugin_devices(offer.devices)))

    def _check_socket(self) -> None:
        try:
            self._socket.stat()
        except FileNotFoundError as exc:
            raise CollectError("not_found", str(exc)) from exc
        except OSError as exc:
            raise CollectError("no_permission", str(exc)) from exc
        if not os.access(self._socket, os.R_OK | os.W_OK, effective_ids=True):
            raise CollectError("no_permission", f"{self._socket} may not be opened")

    def _call(self, channel: Any, method: str, answer: str, end_s: float) -> Any:
        call = channel.unary_unary(f"{_SERVICE}/{method}")  # bytes in, bytes out
        try:
            raw = call(b"", timeout=max(0.0, end_s - time.monotonic()))
        except self._grpc.RpcError as exc:
            raise CollectError(self._reason(exc.code()), f"kubelet, {method}: {exc.code().name}") from exc
        try:
            return self._types[answer].FromString(raw)
        except self._decode_error as exc:
            raise CollectError("format", f"kubelet, {method}: {exc}") from exc

    def _reason(self, code: Any) -> Reason:
        codes = self._grpc.StatusCode
        reasons: dict[Any, Reason] = {
            codes.DEADLINE_EXCEEDED: "timeout",
            codes.UNIMPLEMENTED: "not_supported",
            codes.PERMISSION_DENIED: "no_permission",
            codes.UNAUTHENTICATED: "no_permission",
            codes.UNAVAILABLE: "no_data",
        }
        return reasons.get(code, "unknown")


def _build_messages() -> dict[str, Any]:
    """Classes of the messages, from `_MESSAGES`."""
    descriptors: Any = importlib.import_module("google.protobuf.descriptor_pb2")
    pools: Any = importlib.import_module("google.protobuf.descriptor_pool")
    factory: Any = importlib.import_module("google.protobuf.message_factory")
    file = descriptors.FileDescriptorProto(name="podresources.proto", package=_PACKAGE, syntax="proto3")
    kinds = descriptors.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, inner, repeats in fields:
            message.field.add(
                name=field_name,
                number=number,
                label=kinds.LABEL_REPEATED if repeats else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_MESSAGE if inner else kinds.TYPE_STRING,
                type_name=f".{_PACKAGE}.{inner}" if inner else None,
            )
    pool = pools.DescriptorPool()
    pool.Add(file)
    return {name: factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


def _plugin_devices(devices: Any) -> list[PluginDevice]:
    return [PluginDevice(group.resource_name, name) for group in devices for name in group.device_ids]


def _containers(pods: Any) -> list[Container]:
    return [
        Container(
            pod.namespace,
            pod.name,
            container.name,
            tuple(_plugin_devices(container.devices)),
            tuple(
                ClaimedDevice(claim.driver_name, claim.device_name, tuple(cdi.name for cdi in claim.cdi_devices))
                for resource in container.dynamic_resources
                for claim in resource.claim_resources
            ),
        )
        for pod in pods
        for container in pod.containers
        if container.devices or container.dynamic_resources
    ]
