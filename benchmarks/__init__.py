"""Benchmarks: ratios against a peer or a naive baseline, measured in the same run on the same input."""
