"""Writes the state file of the fake driver library; what is written holds from the next driver call on.

The structures here are the layout of the file; `layout.py` makes the C header of them.
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

from tests.exporter.fake_nvml import activity, models

MAX_GPUS = 64
MAX_LINKS = 36  # NVML_NVLINK_MAX_LINKS
ALL_LINKS = 0xFFFFFFFF
FUNCTIONS = (
    "handle",
    "index",
    "uuid",
    "pci",
    "name",
    "serial",
    "vbios",
    "mig",
    "persistence",
    "minor",
    "utilization",
    "memory",
    "power",
    "energy",
    "temperature",
    "clock",
    "limit",
    "default_limit",
    "ecc_total",
    "ecc_location",
    "remapped_rows",
    "replays",
    "threshold",
    "margin",
    "max_clock",
    "clock_events",
    "throttle_reasons",
    "ecc_mode",
    "sram_status",
    "banks",
    "retired_pages",
    "retired_pending",
    "pcie_gen",
    "pcie_width",
    "pcie_gen_max",
    "pcie_width_max",
    "nvlink_state",
    "fabric",
    "register_events",
    "field_values",
    # Further sections append the names of their functions here: *NAMES from a file of their own.
    *activity.NAMES,
)
"""Every function that may be scripted on one GPU: what it returns, whether it hangs, how often it was called."""
_NOT_ON_H100 = ("retired_pages", "retired_pending")
READINGS = tuple(
    name
    for name in FUNCTIONS[FUNCTIONS.index("utilization") : FUNCTIONS.index("register_events")]
    if name not in _NOT_ON_H100
)

NOT_SUPPORTED = 3
NO_PERMISSION = 4
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
DEPRECATED = 26
UNKNOWN = 999

XID_EVENT, NO_INSTANCE = 8, 0xFFFFFFFF  # nvml.h

_EVENTS = 256
_FUNCTIONS_MAX = 96
_FIELDS_MAX = 256
DOUBLE, UNSIGNED, UNSIGNED_LONG_LONG = 0, 1, 3  # nvmlValueType_t in nvml.h
_MAGIC = 0x4C4D564E


class Field(ctypes.Structure):
    """One value of `nvmlDeviceGetFieldValues`; `bits` are the bytes of its union."""

    _fields_ = (
        ("id", ctypes.c_uint32),
        ("scope", ctypes.c_uint32),
        ("ret", ctypes.c_int32),
        ("type", ctypes.c_uint32),
        ("bits", ctypes.c_uint64),
    )


class Gpu(ctypes.Structure):
    """One GPU; every field may be set at any time."""

    _fields_ = (
        ("every_return", ctypes.c_int32),
        ("delay_ms", ctypes.c_uint32),
        ("returns", ctypes.c_int32 * _FUNCTIONS_MAX),
        ("hangs", ctypes.c_uint32 * _FUNCTIONS_MAX),
        ("calls", ctypes.c_uint32 * _FUNCTIONS_MAX),
        ("utilization_percent", ctypes.c_uint32),
        ("power_mw", ctypes.c_uint32),
        ("temperature_c", ctypes.c_uint32),
        ("sm_mhz", ctypes.c_uint32),
        ("memory_mhz", ctypes.c_uint32),
        ("limit_mw", ctypes.c_uint32),
        ("default_limit_mw", ctypes.c_uint32),
        ("remapped", ctypes.c_uint32 * 4),
        ("replays", ctypes.c_uint32),
        ("mig_mode", ctypes.c_uint32),
        ("persistence", ctypes.c_uint32),
        ("energy_mj", ctypes.c_uint64),
        ("used", ctypes.c_uint64),
        ("free", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64),
        ("total", ctypes.c_uint64),
        ("ecc", ctypes.c_uint64 * 3 * 2 * 2),
        ("uuid", ctypes.c_char * 96),
        ("name", ctypes.c_char * 96),
        ("serial", ctypes.c_char * 32),
        ("vbios", ctypes.c_char * 32),
        ("bus_id", ctypes.c_char * 32),
        ("minor", ctypes.c_uint32),
        ("memory_copy_percent", ctypes.c_uint32),
        ("mig_utilization", ctypes.c_uint32),  # 1 if utilization is answered under MIG, as it should not be
        ("margin_c", ctypes.c_int32),
        ("thresholds_c", ctypes.c_uint32 * 8),
        ("sm_max_mhz", ctypes.c_uint32),
        ("memory_max_mhz", ctypes.c_uint32),
        ("clock_events", ctypes.c_uint64),
        ("ecc_mode", ctypes.c_uint32 * 2),
        ("sram_exceeded", ctypes.c_uint32),
        ("banks", ctypes.c_uint32 * 5),
        ("retired", ctypes.c_uint32 * 2),
        ("retired_pending", ctypes.c_uint32),
        ("pcie_gen", ctypes.c_uint32),
        ("pcie_width", ctypes.c_uint32),
        ("pcie_gen_max", ctypes.c_uint32),
        ("pcie_width_max", ctypes.c_uint32),
        ("links", ctypes.c_uint32),
        ("link_active", ctypes.c_uint32 * MAX_LINKS),
        ("fabric_state", ctypes.c_uint32),
        ("fabric_status", ctypes.c_int32),
        ("unknown_field_return", ctypes.c_int32),  # of every field that was never set
        ("fields_asked", ctypes.c_uint32),
        ("fields_used", ctypes.c_uint32),
        ("fields", Field * _FIELDS_MAX),
        # Further sections stand here: a structure from a file of its own each.
        ("activity", activity.Activity),
    )

    def returns_for(self, function: str, code: int) -> None:
        """Makes one function return a code on this GPU."""
        self.returns[FUNCTIONS.index(function)] = code

    def hang(self, function: str, on: bool = True) -> None:
        """Makes one function sleep on this GPU until it is switched off."""
        self.hangs[FUNCTIONS.index(function)] = int(on)

    def set_field(self, number: int, value: int, scope: int = 0, kind: int = UNSIGNED_LONG_LONG) -> None:
        """Gives a field of `nvmlDeviceGetFieldValues` a value."""
        field = self._field(number, scope)
        field.type, field.bits, field.ret = kind, value, 0

    def field_value(self, number: int, scope: int = 0) -> int:
        """The value of a field, as it was set."""
        return int(self._field(number, scope).bits)

    def refuse_field(self, number: int, code: int, scope: int = 0) -> None:
        """Makes one field return a code, while the batch says success; a field never set says not supported."""
        self._field(number, scope).ret = code

    def cut(self, *profiles: str, first_gi: int = 3) -> None:
        """Cuts the board into MIG instances of these profiles; its utilization is then refused."""
        self.mig_mode = 1
        self.returns_for("utilization", NOT_SUPPORTED)
        for at, profile in enumerate(profiles):
            name = f"{bytes(self.name).decode()} MIG {profile}"
            self.activity.make_instance(at, first_gi + at, f"MIG-{bytes(self.uuid).decode()[4:]}-{at}", name)

    def _field(self, number: int, scope: int) -> Field:
        for at in range(self.fields_used):
            field = self.fields[at]
            if (field.id, field.scope) == (number, scope):
                return field  # type: ignore[no-any-return]
        field = self.fields[self.fields_used]
        field.id, field.scope = number, scope
        self.fields_used += 1
        return field  # type: ignore[no-any-return]

    def calls_of(self, function: str) -> int:
        """How often a function was called on this GPU."""
        return int(self.calls[FUNCTIONS.index(function)])

    def ecc_off(self) -> None:
        """What a GPU with ECC switched off says."""
        self.ecc_mode[:] = [0, 0]
        for function in ("ecc_total", "ecc_location", "sram_status"):
            self.returns_for(function, NOT_SUPPORTED)

    def ecc_on(self) -> None:
        """Undoes `ecc_off`."""
        self.ecc_mode[:] = [1, 1]
        for function in ("ecc_total", "ecc_location", "sram_status"):
            self.returns_for(function, 0)


class Event(ctypes.Structure):
    _fields_ = (
        ("gpu", ctypes.c_uint32),
        ("xid", ctypes.c_uint32),
        ("gi", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
    )


class State(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("init_return", ctypes.c_int32),
        ("count_return", ctypes.c_int32),
        ("init_hangs", ctypes.c_uint32),
        ("gpus", ctypes.c_uint32),
        ("cuda", ctypes.c_uint32),
        ("event_head", ctypes.c_uint32),
        ("wait_hangs", ctypes.c_uint32),
        ("wait_return", ctypes.c_int32),
        ("init_aborts", ctypes.c_uint32),
        ("events", Event * _EVENTS),
        ("driver", ctypes.c_char * 80),
        ("gpm_allocated", ctypes.c_uint32),
        ("gpm_freed", ctypes.c_uint32),
        ("gpu", Gpu * MAX_GPUS),
    )


class FakeDriver:
    """A state file with `gpus` healthy GPUs.

    Attributes:
        path: the file; the library finds it through FAKE_NVML_STATE.
        state: its content, live.
    """

    def __init__(self, path: Path, gpus: int) -> None:
        self.path = path
        with path.open("w+b") as file:
            file.truncate(ctypes.sizeof(State))
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(State))
        self.state = State.from_buffer(self._map)
        self.state.magic = _MAGIC
        self.state.gpus = gpus
        self.state.cuda = 13000
        self.state.driver = b"580.95.05"
        for index in range(MAX_GPUS):
            models.make_h100(self.gpu(index), index)

    def gpu(self, index: int) -> Gpu:
        """One GPU, to be scripted."""
        found = self.state.gpu[index]
        assert isinstance(found, Gpu)
        return found

    def uuid(self, index: int) -> str:
        """UUID of one GPU."""
        return bytes(self.gpu(index).uuid).decode()

    def raise_xid(self, index: int, *xids: int, gi: int = NO_INSTANCE, kind: int = XID_EVENT) -> None:
        """Delivers XIDs to whoever waits, in order; `kind` is the event type, of which XIDs are one."""
        for xid in xids:
            at = self.state.event_head % _EVENTS
            event = self.state.events[at]
            event.gpu, event.xid, event.gi, event.type = index, xid, gi, kind
            self.state.event_head += 1

    def swap(self, one: int, other: int) -> None:
        """Gives two GPUs each other's index, as a new enumeration of the bus may."""
        kept = bytes(self.gpu(one))
        ctypes.memmove(ctypes.addressof(self.gpu(one)), bytes(self.gpu(other)), len(kept))
        ctypes.memmove(ctypes.addressof(self.gpu(other)), kept, len(kept))

    def reload(self, version: bytes) -> None:
        """What another load of the driver leaves: a version, and counters that begin anew."""
        self.state.driver = version
        for index in range(MAX_GPUS):
            models.start_counters_anew(self.gpu(index))
