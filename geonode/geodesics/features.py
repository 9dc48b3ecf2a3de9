"""Path features: the coordinates in which a decoder sees a geodesic."""

FEATURES = ("final_position", "mean_position", "length", "maximum_speed", "wavelength")
"""Names, in order: x(1); integral of x dt; |l|; |l| / min sqrt(g) over the path; w."""
