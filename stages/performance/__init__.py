"""What the stage `benchmark` measures: computations on a device."""
