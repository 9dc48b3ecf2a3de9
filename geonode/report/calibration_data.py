"""Data of the page for its script: numbers as JSON and base64."""

import base64
import json
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.fit import Calibration
from geonode.calibration.limits import Line
from geonode.calibration.methods import Polynomial
from geonode.estimation.curve import DIRECTIONS, FREEDOM, STRETCH, Curve
from geonode.estimation.posterior import EVIDENCE
from geonode.report.calibration_figures import drawn_places
from geonode.report.calibration_tables import said_limit
from geonode.storage.document import plain

LARGEST_CURVE = 430_000
"""Letters of what estimates unknowns; with more, the page would be larger than 1.5 MB."""


def packed(values: Float[np.ndarray, "..."], kind: str = "<f8") -> str:
    """Numbers, little-endian, in base64; `<f4` for those that are only drawn."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def estimator(file: CalibratedFile) -> dict[str, Any] | None:
    """What tells in the page whether a spectrum fits, and what geonode estimates.

    Returns:
        The curve of geonode; where it is too large for a page and another method estimates, the
        components of PLS or PCR; None: spectra are preprocessed, or all is too large.
    """
    if file.series.preprocessing.steps:
        return None
    curves = [packed_curve(file.curve, file.series.axis)]
    if file.calibration.law is not None:
        curves.append(_components(file))
    for one in curves:
        if sum(len(value) for value in one.values() if isinstance(value, str)) <= LARGEST_CURVE:
            return one
    return None


def _components(file: CalibratedFile) -> dict[str, Any]:
    """Components of the diagnostics, with the limits of leverage and Q residual."""
    found = file.diagnostics
    return {
        "wavelengths": len(file.series.axis),
        "samples": len(found.leverages),
        "sizes": found.sizes,
        "limits": [found.leverage_limit, found.residual_limit],
        "axis": packed(file.series.axis),
        "centre": packed(found.centre),
        "rotation": packed(found.rotation.T),
        "loadings": packed(found.loadings),
    }


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
    inside = np.flatnonzero(curve.inside)
    tested = np.flatnonzero(curve.tested)
    first, last = int(inside[0]), int(inside[-1])
    effective = min(DIRECTIONS, directions)
    return {
        "nodes": nodes,
        "directions": directions,
        "wavelengths": len(axis),
        "rank": rank,
        "inside": [first, last + 1],
        "tested": [int(tested[0]), int(tested[-1]) + 1],
        "masses": [curve.mass[first], curve.mass[0 if first else -1]],
        "evidence": EVIDENCE,
        "law": [effective / directions, FREEDOM + effective, FREEDOM * STRETCH],
        "training": curve.training,
        "novelty": [curve.novelty.square, curve.novelty.freedom, curve.novelty.spectra],
        "rounding": np.finfo(float).eps * float(np.abs(curve.scores).max()) ** 2,
        "axis": packed(axis),
        "concentrations": packed(curve.concentrations),
        "edges": packed(curve.edges),
        "pedestal": packed(curve.pedestal),
        "basis": packed(curve.basis),
        "scores": packed(curve.scores),
        "log_prior": packed(curve.log_prior),
        "left": packed(left[:, :rank] * sizes[:rank]),
        "right": packed(right[:rank]),
    }


def page_json(file: CalibratedFile, curve: dict[str, Any] | None) -> str:
    """What the script of the page needs, as JSON that may stand inside a script element.

    Args:
        file: what the page shows.
        curve: of `estimator`.
    """
    series, axis_unit = file.series, file.series.labels["axis_unit"]
    drawn, prediction = drawn_places(file), file.predictions
    _, half = prediction.band
    content = {
        "axisUnit": "" if axis_unit == "1" else axis_unit,
        "levels": series.concentrations,
        "methodName": file.method,
        "drawn": drawn,
        "axis": packed(series.axis[drawn]),
        "measured": packed(series.signal[:, drawn], "<f4"),
        "places": file.places,
        "predicted": packed(prediction.spectra[:, drawn], "<f4"),
        "half": packed(half[:, drawn], "<f4"),
        "lines": [_line(file, place) for place in drawn.tolist()],
        "curve": curve,
        "method": _method(file.calibration),
    }
    return as_json(content)


def as_json(content: dict[str, Any]) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _method(calibration: Calibration) -> dict[str, Any] | None:
    """The method that estimates, as `estimate.js` reads it; None: it is geonode."""
    law = calibration.law
    if law is None:
        return None
    chosen = calibration.fitted[calibration.method]
    fit, kept = chosen.fit, slice(chosen.option + 1)
    content: dict[str, Any] = {"law": asdict(law) | {"t": law.quantile}}
    if isinstance(fit, Polynomial):
        return content | {"polynomial": asdict(fit)}
    if fit.rotation is None:
        kept = slice(chosen.option, chosen.option + 1)
        vectors = np.eye(len(fit.centre))[:, kept]
    else:
        vectors = fit.rotation[:, kept]
    offsets = fit.centre @ vectors
    numbers = {"offsets": offsets, "slopes": fit.slopes[kept], "weights": 1 / fit.sizes[kept]}
    ends = {"mean": fit.mean, "count": fit.count, "vectors": packed(vectors.T)}
    return content | numbers | ends


def _line(file: CalibratedFile, place: int) -> list[float | str]:
    """Intercept, slope and R² of the line at a wavelength, and its limit of detection in words."""
    line = Line.of(file.series, place)
    limit = line.limit()
    detection = said_limit(limit.detection, file.unit)
    if limit.detection is None:
        detection += f": {limit.said}"
    numbers = (line.intercept, line.slope, line.r2)
    return [*(float(f"{one:.6g}") for one in numbers), detection]
