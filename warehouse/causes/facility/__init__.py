"""Faults of the building: halls, rows, feeds."""
