"""Calibrate with spectra; estimate unknowns with intervals."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geonode.calibration.estimator import ConcentrationRegressor
    from geonode.calibration.fit import Calibration
    from geonode.estimation.model import SpectralModel
    from geonode.mixtures.mixture import MixtureCalibration

__version__ = "0.1.0"

__all__ = ["Calibration", "ConcentrationRegressor", "MixtureCalibration", "SpectralModel"]


def __getattr__(name: str) -> Any:
    """Lazy import of what needs torch and scikit-learn."""
    if name == "Calibration":
        from geonode.calibration.fit import Calibration  # noqa: PLC0415

        return Calibration
    if name == "ConcentrationRegressor":
        from geonode.calibration.estimator import ConcentrationRegressor  # noqa: PLC0415

        return ConcentrationRegressor
    if name == "MixtureCalibration":
        from geonode.mixtures.mixture import MixtureCalibration  # noqa: PLC0415

        return MixtureCalibration
    if name == "SpectralModel":
        from geonode.estimation.model import SpectralModel  # noqa: PLC0415

        return SpectralModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
