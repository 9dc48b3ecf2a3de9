"""Learning of the metric of concentration space."""
