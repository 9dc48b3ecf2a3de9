"""Prediction of spectra at any concentration: a learned model, its store, and files of spectra.

No concentration is estimated from a spectrum here (`estimation`).
"""
