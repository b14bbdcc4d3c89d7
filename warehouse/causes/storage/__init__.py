"""Faults and limits of what jobs read from and write to."""
