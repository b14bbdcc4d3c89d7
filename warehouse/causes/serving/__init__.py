"""Faults of inference endpoints."""
