"""Where to compute, and in which floating-point format."""
