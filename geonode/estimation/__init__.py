"""Prediction of spectra at any concentration, and estimation of concentrations from spectra."""
