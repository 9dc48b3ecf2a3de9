"""Geodesics of a learned concentration metric, from measured spectra to honest predictions."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geonode.regressor import GeodesicSpectralRegressor

__version__ = "0.1.0"

__all__ = ["GeodesicSpectralRegressor", "__version__"]


def __getattr__(name: str) -> Any:
    """The regressor when it is asked for: it needs torch and scikit-learn, the package does not."""
    if name == "GeodesicSpectralRegressor":
        from geonode.regressor import GeodesicSpectralRegressor  # noqa: PLC0415

        return GeodesicSpectralRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
