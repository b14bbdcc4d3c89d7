"""Faults of the job itself."""
