"""Who holds which GPU: what a source of allocations says, before it is known which GPU it means.

A source names devices in its own words (a number, a UUID, a device file), since it may know them before the driver
does; `exporter.verdict` says which GPUs these are and joins what several sources say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple

from exporter.collector import NodeState
from exporter.config import Option, Settings
from exporter.errors import Reason

FREE: Final = "free"

By = Literal["uuid", "index", "minor", "gres", "mig"]
"""How a device is named: NVML UUID, NVML index, number of its device file, Slurm's number, UUID of a MIG device."""


class Device(NamedTuple):
    """A device in the words of a source."""

    by: By
    name: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds GPUs; "" where the source does not say.

    Attributes:
        kind: "slurm", "k8s" or "bare".
        job_id: number of the job.
        user: numeric user id. No name is looked up: a directory service may hang.
        pod, namespace, container: of Kubernetes.
    """

    kind: Literal["slurm", "k8s", "bare"]
    job_id: str = ""
    user: str = ""
    pod: str = ""
    namespace: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A workload and what it holds, all of one allocation together.

    Attributes:
        shared: the devices are shares of a GPU that others may hold too, so the scheduler does not know which GPU a
            process of the workload really runs on.
    """

    holder: Holder
    devices: frozenset[Device]
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Allocations:
    """What one source says.

    Attributes:
        claims: who holds what.
        free: devices that nobody of its kind holds.
        unsure: devices of which it cannot say whether someone holds them, and why.
        rest: what it says of every GPU that it names nowhere: `FREE`, or why someone may hold it; None for nothing.
        dropped: what it had to leave out, one reason each, to be counted.
    """

    claims: tuple[Claim, ...] = ()
    free: frozenset[Device] = frozenset()
    unsure: tuple[tuple[Device, Reason], ...] = ()
    rest: Literal["free"] | Reason | None = None
    dropped: tuple[Reason, ...] = ()


class AllocationSource(ABC):
    """One place that knows who holds GPUs.

    Attributes:
        name: the module's name.
        options: its settings, named `collector.job.…`.
        reasons: reasons it can count or fail with.
        by_process: True if it sees workloads only while they have a process on a GPU. Such a source never makes a
            GPU free, and says something only where no other source knows.

    Raises:
        ConfigError: from the constructor, if what the operator asked for cannot work here.
    """

    name: ClassVar[str]
    options: ClassVar[tuple[Option[Any], ...]] = ()
    reasons: ClassVar[tuple[Reason, ...]] = ()
    by_process: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def read(self, node: NodeState) -> Allocations | None:
        """Reads once; None if this machine does not have what it reads, or the operator did not ask for it.

        Raises:
            CollectError: it is there and could not be read.
        """
