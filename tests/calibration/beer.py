"""A series that follows Beer and Lambert's law, with three scans of every level."""

import numpy as np

LEVELS = np.array([0.0, 2.0, 5.0, 8.0, 10.0])
AXIS = np.linspace(400.0, 600.0, 21)
NOISE = 0.002
UNIT_SPECTRUM = 0.1 * np.exp(-(((AXIS - 500) / 40) ** 2))
PLACE = 10
"""Of the steepest wavelength, 500 nm."""


def spectra_at(concentrations):
    """Exact spectra: a band in proportion to concentration on a sloping ground."""
    ground = 0.05 + 0.0001 * (AXIS - 400)
    return ground + np.asarray(concentrations, float)[:, None] * UNIT_SPECTRUM


def scans(count=3, seed=0):
    """Noisy scans of every level."""
    random = np.random.default_rng(seed)
    exact = spectra_at(LEVELS)
    return [one + NOISE * random.normal(size=(count, len(AXIS))) for one in exact]


def table(columns):
    """Text of a file of spectra by the header of their column."""
    lines = [",".join(["wavelength_nm", *columns])]
    for place, wavelength in enumerate(AXIS):
        lines.append(
            ",".join([f"{wavelength:g}", *(f"{one[place]:.6f}" for one in columns.values())])
        )
    return "\n".join(lines) + "\n"


def write_series(path, count=3):
    """A file of the series."""
    columns = {}
    for level, of_level in zip(LEVELS, scans(count), strict=True):
        for place, scan in enumerate(of_level, 1):
            columns[f"{level:g} ppb" if place == 1 else f"{level:g} ppb__r{place}"] = scan
    path.write_text(table(columns), encoding="utf-8")
    return path
