"""A calibration from one file of spectra: fit, limits, verdict, tables and a page."""
