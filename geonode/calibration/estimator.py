"""A scikit-learn regressor from spectra to concentrations."""

import warnings
from itertools import zip_longest
from math import isclose
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    check_non_negative,
    column_or_1d,
    validate_data,
)

from geonode.calibration.chance import Chance
from geonode.calibration.fit import Calibration
from geonode.errors import MixtureError, SpectraError
from geonode.estimation.posterior import Estimates
from geonode.mixtures.mixture import MixtureCalibration, MixtureEstimates
from geonode.parameter_types import require_level
from geonode.posterior.prior import COVERAGE
from geonode.reading.headers import wavelength
from geonode.spectra.arrays import plain_array
from geonode.spectra.replicates import Replicates

SAME_WAVELENGTH = 1e-6
"""Relative difference up to which the names of columns are one wavelength, written otherwise."""


class ConcentrationRegressor(RegressorMixin, BaseEstimator):
    """Concentrations by spectrum, by methods weighted by their errors, with intervals.

    Of several substances all are estimated together, and each by the methods whose errors are small
    for it (`geonode.mixtures`).

    Args:
        method: "auto", or the key of a method: "straight_line", "line_over_c", "line_over_c2",
            "quadratic", "single_wavelength", "pcr", "pls", "preprocessed_pls", "geonode" or
            "combined".
        offset: for geonode, whether spectra may differ from those of `fit` by a constant.
        scale: for geonode, whether they may differ by a factor close to 1.
        level: probability of intervals and sets, above 0.5 and below 1.

    Attributes:
        calibration_ (Calibration): all methods and their errors on samples left out; of several
            substances a `MixtureCalibration`.
        method_ (str): key of the method that estimates; of several substances one of each, the
            method with the largest weight.
        n_features_in_ (int): number of wavelengths.
        feature_names_in_ (ndarray): their names, if X had some.

    All methods but geonode take every sample by itself. Geonode takes samples of one concentration
    for scans of one level: how much they vary says how much a single scan may. It takes part with 4
    to 50 different concentrations.

    `fit` takes no `sample_weight`, and pipelines that are given one refuse it: how errors grow with
    the concentration is estimated from samples left out, which weights would count twice.
    """

    def __init__(
        self,
        *,
        method: str = "auto",
        offset: bool = False,
        scale: bool = False,
        level: float = COVERAGE,
    ) -> None:
        self.method = method
        self.offset = offset
        self.scale = scale
        self.level = level

    def fit(self, X: Any, y: Any, groups: Any = None) -> "ConcentrationRegressor":  # noqa: N803
        """Learn from measured spectra, and weight the methods.

        Args:
            X: spectra, array-like of shape (sample, wavelength).
            y: concentrations, array-like of shape (sample,), none negative, at least two different
                ones; of several substances (sample, substance), in at least 2 d + 2 compositions of
                d substances. Columns of a DataFrame name the substances.
            groups: array-like of shape (sample,): samples that are left out together when methods
                are compared; None: those of one concentration that are nearer to each other than
                to all of other ones.

        Returns:
            The regressor itself. A warning is given if no method of one substance can be used, if
            it could be chance, and for every doubt about what estimates.

        Raises:
            ValueError: an array is empty, negative or not finite, or not of these shapes.
            SpectraError: all concentrations are equal, or there is one wavelength that an offset
                leaves nothing.
            ParameterError: there is no such method, it is geonode and takes no part, or the level
                is none.
            MixtureError: amounts of several substances cannot calibrate, or there are options that
                they have not.
        """
        columns, names = columns_of(X), getattr(y, "columns", None)
        plain_array(X, "X")
        require_level("ConcentrationRegressor", self.level)
        shape = plain_array(y, "y").shape
        self._several = len(shape) == 2 and shape[1] > 1
        options = {key: getattr(self, key) for key in ("method", "offset", "scale")}
        if self._several and (groups is not None or [*options.values()] != ["auto", False, False]):
            raise MixtureError(
                "fit: found groups, a method, offset or scale with several substances, expected "
                'method="auto" alone; leave them out, or fit one substance'
            )
        checks = {"ensure_min_samples": 2, "multi_output": self._several, "y_numeric": True}
        X, y = validate_data(self, X, y, dtype=np.float64, **checks)  # noqa: N806
        y = y.astype(np.float64)
        self.calibration_: Any
        self.method_: str | tuple[str, ...]
        if self._several:
            names = None if names is None else tuple(map(str, names))
            self.calibration_ = MixtureCalibration.of(X, y, names)
            self.method_ = self.calibration_.verdict
        else:
            check_non_negative(y.reshape(-1, 1), f"{type(self).__name__} (y)")
            if self.offset and X.shape[1] == 1:
                raise SpectraError("X: found offset and one wavelength, expected two or more")
            if groups is not None:
                groups = column_or_1d(groups)
                check_consistent_length(X, groups)
            self.calibration_ = Calibration.fit(X, y, groups, **options, level=self.level)
            self.method_ = self.calibration_.method
            _warn_of(self.calibration_, X)
        self._columns = columns
        return self

    def predict(
        self,
        X: Any,  # noqa: N803
        return_interval: bool = False,
    ) -> (
        Float[np.ndarray, "sample *substance"]
        | tuple[Float[np.ndarray, "sample *substance"], Float[np.ndarray, "sample *substance 2"]]
    ):
        """Concentrations by `method_`; a warning says how many spectra geonode has none for.

        Args:
            X: spectra, array-like of shape (sample, wavelength).
            return_interval: whether to return lowest and highest concentration of the interval of
                the method too. A set of geonode with a gap is more than its ends say: see the
                `sets` of `estimate`.

        Raises:
            NotFittedError: there was no fit.
            ValueError: as `fit`.
            ParameterError: the level is none.
            SpectraError: columns are called by other numbers than those of `fit`.
        """
        X = self._validated(X)  # noqa: N806
        found: Any
        fits = np.ones(len(X), dtype=bool)
        if self._several:
            mixtures = self.calibration_.estimate(X, self.level)
            fits, found, intervals = mixtures.fits, mixtures.amounts, mixtures.intervals
        else:
            if self.calibration_.curve is not None:
                fits = self.calibration_.by_geonode(X).fits
            found, intervals = self.calibration_.estimate(X, level=self.level)
        if misfits := int((~fits).sum()):
            warnings.warn(
                f"{misfits} of {len(fits)} spectra fit no concentration; `estimate` tells which",
                stacklevel=2,
            )
        return (found, intervals) if return_interval else found

    def estimate(self, X: Any) -> Estimates | MixtureEstimates:  # noqa: N803
        """Posterior of the concentration of every spectrum by geonode, with its sets.

        Of several substances: their amounts, with joint regions.

        Args:
            X: spectra, array-like of shape (sample, wavelength).

        Raises:
            NotFittedError: there was no fit.
            SpectraError: geonode takes no part.
            ValueError: as `predict`.
        """
        spectra = self._validated(X)
        if self._several:
            return self.calibration_.estimate(spectra, self.level)
        return self.calibration_.by_geonode(spectra, self.level)

    def _validated(self, X: Any) -> np.ndarray:  # noqa: N803
        """Spectra with the columns of `fit`."""
        check_is_fitted(self)
        plain_array(X, "X")
        require_level("ConcentrationRegressor", self.level)  # it may be set after the fit
        spectra = validate_data(self, X, reset=False, dtype=np.float64)
        require_same_columns(X, self._columns)
        return spectra

    def __sklearn_tags__(self) -> Any:
        # No multi_output: scikit-learn's check of it has negative targets, whatever is said here.
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _warn_of(found: Calibration, spectra: np.ndarray) -> None:
    levels, level = np.unique(found.concentrations, return_inverse=True)
    scans = [spectra[level == at] for at in range(len(levels))]
    means = np.stack([of_level.mean(axis=0) for of_level in scans])
    chance, verdict = Chance.of(levels, means, Replicates.of(scans)), found.verdict
    doubts = [*found.warnings]
    if verdict.chosen is None:
        doubts.insert(0, verdict.sentence("1", {}))
    if chance.is_likely:
        doubts.append(chance.sentence)
    if doubts:
        warnings.warn(" ".join(doubts), stacklevel=3)


def columns_of(table: Any) -> list[float] | list[str] | None:
    """Names of the columns of a DataFrame: numbers if all are, as of wavelengths, or texts.

    None for an array, and for columns that are only counted from 0 on.
    """
    if not hasattr(table, "columns"):
        return None
    names = [str(name) for name in table.columns]
    found = [wavelength(name) for name in names]
    numbers = [number for number, _ in filter(None, found)]
    if len(numbers) < len(names):
        return names
    return None if numbers == [*range(len(names))] else numbers


def require_same_columns(table: Any, known: list[float] | list[str] | None) -> None:
    """Refuse a DataFrame whose columns are called otherwise than those of the fit.

    Scikit-learn compares names that are texts, and takes no notice of numbers.

    Args:
        table: spectra; an array has no names to compare.
        known: `columns_of` the spectra of the fit; None: they are not known.

    Raises:
        SpectraError: naming the first column that differs.
    """
    found = columns_of(table)
    if found is None or known is None:
        return
    for place, (one, other) in enumerate(zip_longest(found, known, fillvalue="none"), start=1):
        same = one == other
        if isinstance(one, float) and isinstance(other, float):
            same = isclose(one, other, rel_tol=SAME_WAVELENGTH)
        if not same:
            raise SpectraError(
                f"X: found column {place} called {one}, expected {other} as in the fit; give the "
                "columns of the fit in its order, or an array if their names mean nothing"
            )
