"""Writes the state file of the fake driver library; what is written holds from the next driver call on.

The layout is that of nvml.c.
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

MAX_GPUS = 16
FUNCTIONS = (
    "handle",
    "uuid",
    "pci",
    "name",
    "serial",
    "vbios",
    "mig",
    "persistence",
    "utilization",
    "memory",
    "power",
    "energy",
    "temperature",
    "memory_temperature",
    "clock",
    "limit",
    "default_limit",
    "ecc_total",
    "ecc_location",
    "remapped_rows",
    "replays",
    "register_events",
    "field_values",
)
READINGS = FUNCTIONS[FUNCTIONS.index("utilization") : FUNCTIONS.index("register_events")]

NOT_SUPPORTED = 3
NO_PERMISSION = 4
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999

_EVENTS = 256
_MAGIC = 0x4C4D564E


class Gpu(ctypes.Structure):
    """One GPU; every field may be set at any time."""

    _fields_ = (
        ("every_return", ctypes.c_int32),
        ("returns", ctypes.c_int32 * 32),
        ("hangs", ctypes.c_uint32 * 32),
        ("utilization_percent", ctypes.c_uint32),
        ("power_mw", ctypes.c_uint32),
        ("temperature_c", ctypes.c_uint32),
        ("memory_temperature_c", ctypes.c_uint32),
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
    )

    def returns_for(self, function: str, code: int) -> None:
        """Makes one function return a code on this GPU."""
        self.returns[FUNCTIONS.index(function)] = code

    def hang(self, function: str, on: bool = True) -> None:
        """Makes one function sleep on this GPU until it is switched off."""
        self.hangs[FUNCTIONS.index(function)] = int(on)

    def ecc_off(self) -> None:
        """What a GPU with ECC switched off says."""
        self.returns_for("ecc_total", NOT_SUPPORTED)
        self.returns_for("ecc_location", NOT_SUPPORTED)


class _Event(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint32), ("xid", ctypes.c_uint32))


class _State(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("init_return", ctypes.c_int32),
        ("count_return", ctypes.c_int32),
        ("init_hangs", ctypes.c_uint32),
        ("gpus", ctypes.c_uint32),
        ("cuda", ctypes.c_uint32),
        ("event_head", ctypes.c_uint32),
        ("init_aborts", ctypes.c_uint32),
        ("events", _Event * _EVENTS),
        ("driver", ctypes.c_char * 80),
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
            file.truncate(ctypes.sizeof(_State))
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(_State))
        self.state = _State.from_buffer(self._map)
        self.state.magic = _MAGIC
        self.state.gpus = gpus
        self.state.cuda = 12040
        self.state.driver = b"570.133.20"
        for index in range(MAX_GPUS):
            self._make_healthy(index)

    def gpu(self, index: int) -> Gpu:
        """One GPU, to be scripted."""
        found = self.state.gpu[index]
        assert isinstance(found, Gpu)
        return found

    def uuid(self, index: int) -> str:
        """UUID of one GPU."""
        return bytes(self.gpu(index).uuid).decode()

    def raise_xid(self, index: int, *xids: int) -> None:
        """Delivers XIDs to whoever waits, in order."""
        for xid in xids:
            at = self.state.event_head % _EVENTS
            self.state.events[at].gpu = index
            self.state.events[at].xid = xid
            self.state.event_head += 1

    def _make_healthy(self, index: int) -> None:
        gpu = self.gpu(index)
        gpu.utilization_percent = 90 + index
        gpu.power_mw = 600_000 + 1000 * index
        gpu.temperature_c = 55 + index
        gpu.memory_temperature_c = 65 + index
        gpu.sm_mhz, gpu.memory_mhz = 1980, 2619
        gpu.limit_mw = gpu.default_limit_mw = 700_000
        gpu.persistence = 1
        gpu.energy_mj = 5_000_000_000 + index
        gpu.total, gpu.reserved, gpu.used = 81559 << 20, 551 << 20, 60000 << 20
        gpu.free = gpu.total - gpu.reserved - gpu.used
        gpu.uuid = f"GPU-00000000-0000-4000-8000-{index:012d}".encode()
        gpu.name = b"NVIDIA H100 80GB HBM3"
        gpu.serial = f"165{index:010d}".encode()
        gpu.vbios = b"96.00.74.00.01"
        gpu.bus_id = f"00000000:{0x19 + 14 * index:02X}:00.0".encode()
