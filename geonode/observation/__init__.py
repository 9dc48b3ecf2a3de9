"""Observation of running work: log, resources, profile."""
