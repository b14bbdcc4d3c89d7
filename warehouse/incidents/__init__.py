"""Evidence that belongs together becomes one incident with one charged cause. Pure: no I/O, no clock."""
