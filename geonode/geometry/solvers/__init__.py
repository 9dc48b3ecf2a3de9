"""Solvers of the geodesic boundary value problem."""
