"""Devices, number formats and kernels."""
