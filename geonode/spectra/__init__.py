"""Measured spectra: files, tables, charts, and synthetic ones."""
