"""A kubelet as its pod-resources service shows it: a real gRPC server on a unix socket.

The messages are described anew, with the fields that our client does not know (cpu_ids, memory, topology and one that
no kubelet has yet), so that a wrong number or a field that is not skipped shows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

# k8s.io/kubelet/pkg/apis/podresources/v1/api.proto: "string", "int64", "uint64" or the name of a message; * repeats.
_API = {
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources*")},
    "AllocatableResourcesResponse": {
        "devices": (1, "ContainerDevices*"),
        "cpu_ids": (2, "int64*"),
        "memory": (3, "ContainerMemory*"),
    },
    "PodResources": {
        "name": (1, "string"),
        "namespace": (2, "string"),
        "containers": (3, "ContainerResources*"),
        "cpu_ids": (4, "int64*"),
        "from_the_future": (99, "ContainerMemory"),
    },
    "ContainerResources": {
        "name": (1, "string"),
        "devices": (2, "ContainerDevices*"),
        "cpu_ids": (3, "int64*"),
        "memory": (4, "ContainerMemory*"),
        "dynamic_resources": (5, "DynamicResource*"),
    },
    "ContainerMemory": {"memory_type": (1, "string"), "size": (2, "uint64"), "topology": (3, "TopologyInfo")},
    "ContainerDevices": {
        "resource_name": (1, "string"),
        "device_ids": (2, "string*"),
        "topology": (3, "TopologyInfo"),
    },
    "TopologyInfo": {"nodes": (1, "NUMANode*")},
    "NUMANode": {"ID": (1, "int64")},
    "DynamicResource": {
        "claim_name": (2, "string"),
        "claim_namespace": (3, "string"),
        "claim_resources": (4, "ClaimResource*"),
    },
    "ClaimResource": {
        "cdi_devices": (1, "CDIDevice*"),
        "driver_name": (2, "string"),
        "pool_name": (3, "string"),
        "device_name": (4, "string"),
    },
    "CDIDevice": {"name": (1, "string")},
}
_FIELD: Any = descriptor_pb2.FieldDescriptorProto
_TYPES = {"string": _FIELD.TYPE_STRING, "int64": _FIELD.TYPE_INT64, "uint64": _FIELD.TYPE_UINT64}


def _classes() -> dict[str, Any]:
    file: Any = descriptor_pb2.FileDescriptorProto(name="kubelet_api.proto", package="v1", syntax="proto3")
    for name, fields in _API.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            field = message.field.add(name=field_name, number=number)
            field.label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
            bare = kind.rstrip("*")
            field.type = _TYPES.get(bare, _FIELD.TYPE_MESSAGE)
            if bare not in _TYPES:
                field.type_name = f".v1.{bare}"
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{n}")) for n in _API}


_CLASSES = _classes()
_NUMA = {"nodes": [{"ID": 0}]}
Devices = Mapping[str, Sequence[str]]


def devices(offer: Devices) -> list[dict[str, Any]]:
    """Device ids by resource, as the kubelet gives them: with their NUMA nodes."""
    return [{"resource_name": name, "device_ids": list(ids), "topology": _NUMA} for name, ids in offer.items()]


def pod(name: str, held: Devices, namespace: str = "ml", claims: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A pod whose container `main` holds devices; a second container holds none."""
    dynamic = [{"claim_name": "claim", "claim_namespace": namespace, "claim_resources": list(claims)}] if claims else []
    main = {"name": "main", "devices": devices(held), "cpu_ids": [1, 2], "dynamic_resources": dynamic}
    memory = [{"memory_type": "memory", "size": 4096, "topology": _NUMA}]
    containers = [main, {"name": "sidecar", "memory": memory}]
    return {"name": name, "namespace": namespace, "containers": containers, "from_the_future": {"size": 1}}


class Kubelet:
    """A kubelet; what it says may be changed at any time.

    Attributes:
        pods: what `pod` gives.
        offer: device ids by resource that can be given out or are; None if it does not know the question.
        status: code with which every question fails, None for none.
        delay_s: how long it takes for an answer.
        raw: bytes that it sends instead of an answer.
        asked: questions so far.
    """

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.pods: list[dict[str, Any]] = []
        self.offer: Devices | None = {}
        self.status: grpc.StatusCode | None = None
        self.delay_s = 0.0
        self.raw: bytes | None = None
        self.asked = 0
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Makes the socket and serves."""
        server = grpc.server(futures.ThreadPoolExecutor(4))
        methods = {"List": self._list, "GetAllocatableResources": self._allocatable}
        handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),))
        server.add_insecure_port(f"unix:{self.socket}")
        server.start()
        self._server = server

    def stop(self) -> None:
        """Ends at once; the socket is gone."""
        if self._server is not None:
            self._server.stop(None).wait()
            self.socket.unlink(missing_ok=True)
            self._server = None

    def _answer(self, kind: str, content: dict[str, Any], context: grpc.ServicerContext) -> bytes:
        self.asked += 1
        time.sleep(self.delay_s)
        if self.status is not None:
            context.abort(self.status, "on purpose")
        if self.raw is not None:
            return self.raw
        return bytes(json_format.ParseDict(content, _CLASSES[kind]()).SerializeToString())

    def _list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        return self._answer("ListPodResourcesResponse", {"pod_resources": self.pods}, context)

    def _allocatable(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        if self.offer is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
        content = {"devices": devices(self.offer or {}), "cpu_ids": [0, 1]}
        return self._answer("AllocatableResourcesResponse", content, context)
