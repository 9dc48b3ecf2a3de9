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
    spread: Float[np.ndarray, "concentration wavelength"],
) -> str:
    """A CSV with one row for every left-out level and wavelength.

    Columns: left_out, wavelength, measured, predicted, spread; six significant digits.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("left_out", "wavelength", "measured", "predicted", "spread"))
    for name, *rows in zip(level_names, measured, predicted, spread, strict=True):
        for wavelength, *values in zip(axis, *rows, strict=True):
            writer.writerow((name, f"{wavelength:g}", *(f"{value:.6g}" for value in values)))
    return text.getvalue()
