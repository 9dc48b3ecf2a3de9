"""How good predictions are, against measurement and against classical methods."""
