"""The metric of concentration space, its Christoffel symbols, and the grid that holds them."""
