"""Geodesics between concentrations, and what a decoder reads off them.

On a one-dimensional manifold sqrt(g(x)) x' is constant along a geodesic, so with the arc length
S(x) = integral of sqrt(g) dx everything has a closed form; nothing is stepped through time.
"""
