"""Computations on a device that the stage `benchmark` measures."""
