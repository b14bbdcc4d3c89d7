"""The part of the state file that scripts hardware counters, MIG instances and processes."""

from __future__ import annotations

import ctypes

NAMES = (
    "gpm_support",
    "gpm_sample",
    "gpm_mig_sample",
    "gpm_metrics",
    "mig_count",
    "mig_handle",
    "mig_facts",
    "mig_attributes",
    "processes",
)
"""Functions of this part, see `script.FUNCTIONS`."""
ENGINE, SM, OCCUPANCY, TENSOR, DRAM, PCIE_TX, PCIE_RX = 1, 2, 3, 5, 10, 20, 21  # GPM metric ids of nvml.h
NO_INSTANCE = 0xFFFFFFFF

_METRICS = 32
_INSTANCES = 7
_PROCESSES = 64


class MigInstance(ctypes.Structure):
    """One MIG device; `made` counts how often one was made in this place, 0 while there is none."""

    _fields_ = (
        ("made", ctypes.c_uint32),
        ("gi", ctypes.c_uint32),
        ("ci", ctypes.c_uint32),
        ("gi_slices", ctypes.c_uint32),
        ("ci_slices", ctypes.c_uint32),
        ("memory_mib", ctypes.c_uint64),
        ("used", ctypes.c_uint64),
        ("uuid", ctypes.c_char * 96),
        ("name", ctypes.c_char * 96),
        ("counters", ctypes.c_double * _METRICS),
    )


class Process(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint32), ("gi", ctypes.c_uint32), ("memory", ctypes.c_uint64))


class Activity(ctypes.Structure):
    """Of one GPU."""

    _fields_ = (
        ("gpm_supported", ctypes.c_uint32),
        ("processes_used", ctypes.c_uint32),
        ("counters", ctypes.c_double * _METRICS),  # percent and MiB/s, by metric id
        ("counter_returns", ctypes.c_int32 * _METRICS),
        ("mig", MigInstance * _INSTANCES),
        ("processes", Process * _PROCESSES),
    )

    def make_healthy(self) -> None:
        """A Hopper GPU that trains."""
        self.gpm_supported = 1
        for metric, value in ((ENGINE, 98.0), (SM, 91.5), (OCCUPANCY, 35.0), (TENSOR, 58.25), (DRAM, 47.0)):
            self.counters[metric] = value
        self.counters[PCIE_TX], self.counters[PCIE_RX] = 2500.0, 3000.0

    def make_instance(self, at: int, gi: int, uuid: str, name: str, memory_mib: int = 9856, ci: int = 0) -> MigInstance:
        """Makes a MIG device in a place where there is none."""
        found = self.mig[at]
        assert isinstance(found, MigInstance)
        made = found.made
        ctypes.memset(ctypes.addressof(found), 0, ctypes.sizeof(found))
        found.gi, found.ci, found.uuid, found.name = gi, ci, uuid.encode(), name.encode()
        found.gi_slices = found.ci_slices = 1
        found.memory_mib, found.used = memory_mib, memory_mib << 19
        for metric, value in ((ENGINE, 90.0), (SM, 80.0), (TENSOR, 40.0), (DRAM, 30.0)):
            found.counters[metric] = value + gi
        found.made = made + 1
        return found

    def destroy_instance(self, at: int) -> None:
        """Takes a MIG device away."""
        self.mig[at].uuid = b""

    def run(self, *processes: tuple[int, int | None], gi: int = NO_INSTANCE) -> None:
        """Replaces what computes: process id and bytes, None where the driver does not know them."""
        for at, (pid, memory) in enumerate(processes):
            one = self.processes[at]
            one.pid, one.gi, one.memory = pid, gi, 2**64 - 1 if memory is None else memory
        self.processes_used = len(processes)
