"""Preprocessing of spectra, each by itself."""
