"""Faults of links and switches, inside a node and between nodes."""
