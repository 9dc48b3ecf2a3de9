"""Engines, which run tiles in this process or in those of a cluster."""
