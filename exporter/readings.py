"""What crosses the pipe from the driver processes, and the sample that every collector gives.

Standard library only. None of these types knows where a value came from: the simulator makes the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from exporter.errors import Reason
from exporter.metrics import Family

NVML_SUCCESS = 0
NVML_NEVER_ANSWERED = -1
_WORDS = {
    9: "the driver is not loaded",
    12: "there is no driver library",
    15: "a GPU is lost",
    16: "a GPU wants a reset",
    18: "library and driver differ",
}


def nvml_words(code: int) -> str:
    """An NVML return code for people; numbers of nvml.h, nvmlReturn_t."""
    return f"NVML return code {code}" + (f": {_WORDS[code]}" if code in _WORDS else "")


class Sample(NamedTuple):
    """One line of the page.

    Attributes:
        family: its family; `labels` stand in the order of `family.labels`.
        labels: label values.
        value: in the unit of the family.
    """

    family: Family
    labels: tuple[str, ...]
    value: float


class Value(NamedTuple):
    """One reading of one GPU on its way through the pipe.

    Attributes:
        family: full name of the family.
        labels: values of the labels after `uuid` and `slot`.
        value: in the unit of the family.
    """

    family: str
    labels: tuple[str, ...]
    value: float


class Unavailable(NamedTuple):
    """A field that cannot be served, and why."""

    field: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Identity:
    """Which GPU sits in which slot.

    Attributes:
        uuid: NVML UUID.
        slot: normalised PCI address, see `exporter.slot`.
        index: NVML index at the last answer, None where the driver does not say; it is renumbered when a GPU falls off.
        model, serial, vbios, driver, cuda, mig_mode, persistence: "" where the driver gives none.
        minor: number of its device file (/dev/nvidiaN), None where the driver does not say.
    """

    uuid: str
    slot: str
    index: int | None
    model: str = ""
    serial: str = ""
    vbios: str = ""
    driver: str = ""
    cuda: str = ""
    mig_mode: str = ""
    persistence: str = ""
    minor: int | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """A process that computes on a GPU.

    Attributes:
        pid: in the process id space of the host.
        memory_bytes: board memory that it holds, None where the driver does not say.
        gi: GPU instance that it runs on, None outside MIG.
        comm: its command name, as the kernel keeps it; "" until it has been looked up.
    """

    pid: int
    memory_bytes: int | None = None
    gi: int | None = None
    comm: str = ""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG device of a board.

    Attributes:
        gi, ci: GPU instance and compute instance.
        uuid: NVML UUID of the MIG device.
        profile: "1g.10gb", "" where it cannot be told.
        values: readings of its GPU instance: families of `mig_`, with the labels after `uuid` and `slot`; () for
            all but the first compute instance of a GPU instance, so that none stands twice.
    """

    gi: int
    ci: int
    uuid: str
    profile: str = ""
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU in one cycle.

    Law: `down` is set exactly when `values` may not be served; then `values` is empty.

    Attributes:
        identity: last known identity.
        down: None if the GPU answered, else why not.
        values: its readings.
        unavailable: fields it does not give, and why.
        processes: what computes on it, None where the driver does not say.
        instances: its MIG devices.
    """

    identity: Identity
    down: Reason | None
    values: tuple[Value, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()
    processes: tuple[Process, ...] | None = None
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class NvmlSnapshot:
    """One cycle of the driver process.

    Attributes:
        code: NVML return code of the initialisation or, later, of the device count.
        driver: driver version, "" if unknown.
        gpus: every GPU that this process has ever identified.
        unidentified: indices, or slots, that could not be asked who they are, and why.
        dropped: values thrown away in this cycle, to be counted: one reason each.
    """

    code: int
    driver: str = ""
    gpus: tuple[GpuReading, ...] = ()
    unidentified: tuple[tuple[int | str, Reason], ...] = ()
    dropped: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Asking:
    """Sent before each GPU is asked, so that a hang can be blamed on one GPU.

    Attributes:
        number: of the request; 0 from the event process, which has none.
        slot: the GPU that is asked next; "" once it is done and the driver as a whole is asked.
    """

    number: int
    slot: str


@dataclass(frozen=True, slots=True)
class XidEvent:
    """One driver error event.

    Attributes:
        uuid: GPU it came from; "" if the driver named a handle that was never registered.
        slot: its slot, "" likewise.
        xid: the number.
        at_s: Unix time: when the wait for it returned, or when the kernel logged it.
        gi: GPU instance it is about, None outside MIG or where nobody says.
    """

    uuid: str
    slot: str
    xid: int
    at_s: float
    gi: int | None = None


@dataclass(frozen=True, slots=True)
class XidBeat:
    """Sign of life of the event process, after every wait.

    Attributes:
        code: NVML return code of the initialisation or, later, of the wait.
        registered: UUIDs of the GPUs that send their events.
        refused: UUIDs of GPUs that answer and do not let their events be waited for, and why.
        events: what this wait returned, in order.
    """

    code: int
    registered: tuple[str, ...] = ()
    refused: tuple[tuple[str, Reason], ...] = ()
    events: tuple[XidEvent, ...] = ()
