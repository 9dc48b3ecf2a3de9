"""Learning and calibration of the prior of the package on simulated series."""
