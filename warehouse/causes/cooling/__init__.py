"""Faults of cooling, from a row's unit to one GPU."""
