"""Simulated concentration series, with their noise: weights of smoothers are learned on them."""
