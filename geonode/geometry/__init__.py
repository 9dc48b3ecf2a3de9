"""Metrics, their Christoffel symbols on a grid, and the geodesics between concentrations.

The road from a metric to path features: `perceptron` and `metric` evaluate the network, `chebyshev`
expands it and sums it up on a `grid`, `solvers.closed_form` integrates the grid, and `stations`
turns the integrals between neighbouring concentrations into features of every path. In training,
`panels` takes the place of the grid. `stored` and `solved` are the artifacts of the stages, and
`verification` compares both with the network.
"""
