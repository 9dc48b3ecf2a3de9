"""Estimation of concentrations from spectra: law of errors, posterior, sets, and images.

No spectrum is predicted for its own sake here (`prediction`).
"""
