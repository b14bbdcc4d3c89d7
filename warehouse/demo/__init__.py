"""The whole stack on one machine, over a fleet that does not exist.

Pure parts: `fleet`, `record`, `lanes`, `history`, `scenario`, `prometheus`. Edges: `layout` (the folder and its lock),
`seed` (the files of the past), `ports`, `process`, `supervise` and `watchdog` (processes), `stack` (the order in which
all of it starts and stops).
"""
