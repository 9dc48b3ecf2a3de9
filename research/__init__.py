"""Benchmarks run by hand; their results are in docs/."""
