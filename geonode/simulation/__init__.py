"""Simulated concentration series with noise, on which the rule of weights is learned."""
