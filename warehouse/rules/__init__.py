"""Prometheus rules of the catalogue: what the detectors look for, as alerts that somebody is told of."""
