"""Geodesics of a learned concentration metric, from measured spectra to honest predictions."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geonode.regressor import GeodesicSpectralRegressor

__all__ = ["GeodesicSpectralRegressor"]


def __getattr__(name: str) -> Any:
    """Lazy import of the regressor, which needs torch and scikit-learn."""
    if name == "GeodesicSpectralRegressor":
        from geonode.regressor import GeodesicSpectralRegressor  # noqa: PLC0415

        return GeodesicSpectralRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
