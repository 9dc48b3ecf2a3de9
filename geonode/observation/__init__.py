"""Observation of running work: resources, records, profile."""
