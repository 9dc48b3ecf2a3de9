"""Path features: the coordinates in which a decoder sees a geodesic."""

FEATURES = ("final_position", "mean_position", "length", "maximum_speed", "wavelength")
"""Names, in order: x(1); integral of x dt; |l|; |l| / min sqrt(g) over the path; w."""

PATH_FEATURES = (
    *("final_position", "mean_position", "length", "maximum_speed"),
    *("mean_curvature", "torsion", "bending_energy"),
)
"""Names, in order: the first four as above; integral over time of the curvature of the plane
curve (t, x(t)); integral over time of the torsion of the space curve (t, x(t), x'(t)); integral
over its length of the squared curvature of the plane curve."""
