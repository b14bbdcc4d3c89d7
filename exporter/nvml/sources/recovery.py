"""What the driver asks the operator to do."""

from __future__ import annotations

import pynvml

from exporter import metrics as m
from exporter.nvml.fields import FieldId
from exporter.nvml.source import Field

SOURCES = (FieldId(True, Field(m.GPU_RECOVERY_ACTION), pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION),)
