"""Seconds of the computations on a device, and of the sequential method."""
