"""The whole stack on one machine, over a fleet that does not exist.

Pure parts: `fleet`, `record`, `lanes`, `history`, `scenario`, `prometheus`. Edges: `layout` (files, the lock),
`ports`, `child` and `watchdog` (processes), `stack` (the order in which they start and stop).
"""
