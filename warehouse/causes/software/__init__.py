"""Faults of drivers and firmware."""
