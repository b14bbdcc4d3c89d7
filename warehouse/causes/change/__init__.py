"""Faults that a change brought in."""
