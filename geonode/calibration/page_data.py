"""Data of the page for its script: numbers as JSON and base64."""

import base64
import json
from pathlib import PurePath
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from geonode.calibration.fit import Calibration
from geonode.calibration.limits import line_limit
from geonode.calibration.line import Line
from geonode.calibration.tables import said_limit
from geonode.calibration.verdict import NAMES, spans_decades
from geonode.estimation.curve import Curve
from geonode.report.wording import number
from geonode.spectra.series import labelled
from geonode.storage.document import plain

DRAWN = 500
"""Wavelengths at which spectra are drawn, at most."""

LARGEST_CURVE = 1_200_000
"""Bytes of what estimates unknowns; of more, the page would be too large."""

LARGEST_WORKBOOK = 700_000
"""Bytes of the workbook; a larger one is a file beside the page alone."""


def packed(values: Float[np.ndarray, "..."], kind: str = "<f8") -> str:
    """Numbers, little-endian, in base64; `<f4` for those that are only drawn."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def estimates_in_page(calibration: Calibration) -> bool:
    """Whether the page can estimate unknown spectra; it has no preprocessing and stays small."""
    curve = calibration.curve
    nodes, directions = curve.scores.shape
    small = 8 * directions * (curve.basis.shape[1] + nodes) <= LARGEST_CURVE
    return small and not calibration.series.preprocessing.steps


def packed_curve(curve: Curve, axis: Float[np.ndarray, "wavelength"]) -> dict[str, Any]:
    """A curve as `estimate.js` reads it.

    The covariances are straight between a few knots, so that their matrix of nodes by entries has a
    low rank: two factors of it are stored.
    """
    nodes, directions = curve.scores.shape
    lower = np.tril_indices(directions)
    entries = curve.covariances.matrices[:, lower[0], lower[1]]
    left, sizes, right = np.linalg.svd(entries, full_matrices=False)
    rank = int(np.sum(sizes > np.finfo(float).eps * sizes[0]))
    tested = np.flatnonzero(curve.tested)
    return {
        "nodes": nodes,
        "directions": directions,
        "wavelengths": len(axis),
        "rank": rank,
        "mass": curve.mass,
        "freedom": int(curve.freedom[0]),
        "tested": [int(tested[0]), int(tested[-1]) + 1],
        "novelty": [curve.novelty.square, curve.novelty.freedom, curve.novelty.spectra],
        "rounding": np.finfo(float).eps * float(np.abs(curve.scores).max()) ** 2,
        "axis": packed(axis),
        "concentrations": packed(curve.concentrations),
        "edges": packed(curve.edges),
        "basis": packed(curve.basis),
        "scores": packed(curve.scores),
        "log_prior": packed(curve.log_prior),
        "left": packed(left[:, :rank] * sizes[:rank]),
        "right": packed(right[:rank]),
    }


def page_json(calibration: Calibration, book: bytes) -> str:
    """All of it, as JSON that may stand inside a script element."""
    series, verdict = calibration.series, calibration.verdict
    levels, unit, axis_unit = series.concentrations, calibration.unit, series.labels["axis_unit"]
    drawn, prediction = drawn_places(calibration), calibration.predictions
    _, half = prediction.band
    positive = levels[levels > 0]
    decades = spans_decades(levels)
    content = {
        "stem": PurePath(calibration.source).stem,
        "unit": "" if unit == "1" else unit,
        "axisUnit": "" if axis_unit == "1" else axis_unit,
        "axisLabel": series.axis_label,
        "signalLabel": series.signal_label,
        "concentrationLabel": labelled("concentration", unit),
        "metricLabel": "√g" + ("" if unit == "1" else f" (per {unit})"),
        "floor": positive[0] / 10 if decades else None,
        "levels": levels,
        "names": NAMES,
        "chosen": None if verdict.chosen is None else verdict.chosen.key,
        "methods": {method.key: method.estimates for method in verdict.methods},
        "sets": [one.sets[0] for one in calibration.left_out.estimates],
        "drawn": drawn,
        "axis": packed(series.axis[drawn]),
        "measured": packed(series.signal[:, drawn], "<f4"),
        "size": float(np.abs(series.signal).max()),
        "places": calibration.places,
        "predicted": packed(prediction.spectra[:, drawn], "<f4"),
        "half": packed(half[:, drawn], "<f4"),
        "lines": [_line(calibration, place) for place in drawn.tolist()],
        "metric": _metric(calibration),
        "curve": packed_curve(calibration.curve, series.axis)
        if estimates_in_page(calibration)
        else None,
        "workbook": base64.b64encode(book).decode() if len(book) <= LARGEST_WORKBOOK else None,
    }
    text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def drawn_places(calibration: Calibration) -> Int[np.ndarray, "drawn"]:
    """Wavelengths that are drawn: evenly, and that of the straight line."""
    count = len(calibration.series.axis)
    even = np.linspace(0, count - 1, min(count, DRAWN)).round().astype(int)
    return np.union1d(even, [calibration.place])


def _line(calibration: Calibration, place: int) -> dict[str, Any]:
    """Calibration line at a wavelength, and what it amounts to in words."""
    series = calibration.series
    line = Line.of(series.concentrations, series.signal[:, place])
    limit = line_limit(series, line, place)
    detection = said_limit(limit.detection, calibration.unit)
    if limit.detection is None:
        detection += f": {limit.said}"
    note = (
        f"Line: signal = {number(line.intercept)} + {number(line.slope)} × concentration; "
        f"R² {number(line.r2, 4)}; limit of detection {detection}."
    )
    return {"intercept": line.intercept, "slope": line.slope, "note": note}


def _metric(calibration: Calibration) -> dict[str, Any]:
    """Posterior of sqrt(g) between the end levels, where the predictor changes its calibration."""
    found = calibration.predictions.predicted.sqrt_metric
    assert found is not None  # the predictor has a posterior
    first, last = calibration.series.concentrations[[0, -1]]
    kept = (calibration.places > first) & (calibration.places < last)
    return {
        "places": calibration.places[kept],
        "mean": found[0][kept],
        "deviation": found[1][kept],
    }
