"""Faults of the services around the jobs."""
