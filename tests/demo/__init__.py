"""The demo: its past, its parts, its processes, and all of it from end to end."""
