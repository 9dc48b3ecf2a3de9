"""GPU kernels in Triton, which is needed to import most of these modules."""
