"""Data of the page for its script: numbers as JSON and base64."""

import base64
import json
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.limits import Line
from geonode.calibration.one_substance import OneSubstance
from geonode.report.calibration_figures import drawn_places
from geonode.report.calibration_tables import said_limit
from geonode.storage.document import plain


def packed(values: Float[np.ndarray, "..."], kind: str = "<f8") -> str:
    """Numbers, little-endian, in base64; `<f4` for those that are only drawn."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def page_json(file: CalibrationFile[OneSubstance]) -> str:
    """What the script of the page needs, as JSON that may stand inside a script element."""
    series, axis_unit = file.series, file.series.labels["axis_unit"]
    drawn, prediction = drawn_places(file), file.model.predictions
    _, half = prediction.band
    content = {
        "axisUnit": "" if axis_unit == "1" else axis_unit,
        "levels": series.concentrations,
        "axis": packed(series.axis[drawn]),
        "measured": packed(series.signal[:, drawn], "<f4"),
        "places": file.model.places,
        "predicted": packed(prediction.spectra[:, drawn], "<f4"),
        "half": packed(half[:, drawn], "<f4"),
        "lines": [_line(file, place) for place in drawn.tolist()],
    }
    return as_json(content)


def as_json(content: dict[str, Any]) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _line(file: CalibrationFile[OneSubstance], place: int) -> list[float | str]:
    """Intercept, slope and R² of the line at a wavelength, and its limit of detection in words."""
    line = Line.of(file.series, place)
    limit = line.limit()
    detection = said_limit(limit.detection, file.unit)
    if limit.detection is None:
        detection += f": {limit.said}"
    numbers = (line.intercept, line.slope, line.r2)
    return [*(float(f"{one:.6g}") for one in numbers), detection]
