"""How the prior of the package is made: a rule learned, and calibrated, on simulated series."""
