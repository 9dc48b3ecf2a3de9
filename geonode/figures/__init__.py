"""Figures for people: left-out spectra, predictions and estimates, as PNG."""
