"""Faults of the GPU itself."""
