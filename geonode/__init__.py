"""Geodesics of a learned concentration metric, from measured spectra to honest predictions."""
