"""Faults of the machine around the GPUs."""
