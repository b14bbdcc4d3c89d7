"""PCIe link."""

from __future__ import annotations

import pynvml

from exporter import metrics as m
from exporter.nvml.source import Field, number, slow

SOURCES = (slow([Field(m.GPU_PCIE_REPLAYS)], number(pynvml.nvmlDeviceGetPcieReplayCounter)),)
