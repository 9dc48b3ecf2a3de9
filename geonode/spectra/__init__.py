"""Measured spectra: series, charts, replicates, noise, preprocessing, axes, and synthetic ones.

No file that an instrument or a person made is read here (`reading`), and no concentration is
predicted or estimated.
"""
