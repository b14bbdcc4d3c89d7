"""Tests of the node exporter: the real one, as a process, over a driver library that does what a test says."""
