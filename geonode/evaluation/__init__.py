"""Scores of predictions against measurement and against classical methods."""
