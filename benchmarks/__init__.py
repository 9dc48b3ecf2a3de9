"""Comparisons that are run by hand; what they found is in docs/."""
