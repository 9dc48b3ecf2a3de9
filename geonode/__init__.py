"""Calibrate with spectra; estimate unknowns with intervals."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geonode.calibration.estimator import ConcentrationRegressor
    from geonode.calibration.fit import Calibration
    from geonode.calibration.saved import load_calibration
    from geonode.mixtures.mixture import MixtureCalibration
    from geonode.prediction.model import SpectralModel

__version__ = "0.2.0"

__all__ = [
    "Calibration",
    "ConcentrationRegressor",
    "MixtureCalibration",
    "SpectralModel",
    "load_calibration",
]

_PLACES = {
    "Calibration": "geonode.calibration.fit",
    "ConcentrationRegressor": "geonode.calibration.estimator",
    "MixtureCalibration": "geonode.mixtures.mixture",
    "SpectralModel": "geonode.prediction.model",
    "load_calibration": "geonode.calibration.saved",
}


def __getattr__(name: str) -> Any:
    """Lazy import of what needs torch and scikit-learn."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    """Names for completion, of what is not imported yet too."""
    return sorted({*globals(), *__all__})
