"""Mixtures: all concentrations of a sample at once, from its spectrum.

A response surface in the space of the amounts is the forward model, whose kernels are of geodesic
distance on the product of one-dimensional charts. PLS and classical least squares stand beside it,
and errors of left-out compositions weigh them.
"""
