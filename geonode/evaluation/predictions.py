"""Leave-one-out predictions as a table."""

import csv
import io

import numpy as np
from jaxtyping import Float


def predictions_csv(
    axis: Float[np.ndarray, "wavelength"],
    level_names: list[str],
    measured: Float[np.ndarray, "concentration wavelength"],
    predicted: Float[np.ndarray, "concentration wavelength"],
    band: tuple[str, Float[np.ndarray, "concentration wavelength"]],
) -> str:
    """CSV table with one row for every left-out level and wavelength.

    Columns: left_out, wavelength, measured, predicted, and the half width of the band about the
    prediction under the name of the band; six significant digits.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("left_out", "wavelength", "measured", "predicted", band[0]))
    for name, *rows in zip(level_names, measured, predicted, band[1], strict=True):
        for wavelength, *values in zip(axis, *rows, strict=True):
            writer.writerow((name, f"{wavelength:g}", *(f"{value:.6g}" for value in values)))
    return text.getvalue()
