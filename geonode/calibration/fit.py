"""Calibration: methods are compared on left-out samples, and estimate together, or one of them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy.sparse.csgraph import connected_components
from scipy.special import bdtr, ndtri  # scipy.stats takes 0.3 s to import

from geonode.calibration.combination import combined_left_out
from geonode.calibration.intervals import (
    EndsOfUnknowns,
    ErrorLaw,
    Groups,
    OfSamples,
    OfUnknowns,
    Sets,
    are_covered,
    intervals_left_out,
    lengths_of,
)
from geonode.calibration.methods import FEWEST_GROUPS, fitted, folds_of, keys_for
from geonode.calibration.verdict import LARGEST_RELATIVE, NAMES, Verdict
from geonode.compute.threads import in_threads, one_thread
from geonode.errors import ParameterError, SpectraError, TrainingError
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import Estimates, estimate
from geonode.posterior.prior import COVERAGE
from geonode.progress import Progress, silent
from geonode.spectra.arrays import real_array
from geonode.spectra.component_regression import ROUNDING_OF_SPECTRA, Fitted
from geonode.spectra.series import Series
from geonode.spectra.table import without_rounding
from geonode.ties import EQUAL
from geonode.wording import number

FEWEST_TO_CALIBRATE = 3
"""Of a fold of geonode: as many as a series of four leaves."""

UNLIKELY = 0.05
"""Probability of so few intervals that hold, if they hold as often as they should."""

LARGEST_ERROR = 0.25
"""RMSEP as a share of the range, from which the estimates tell little."""

WITHOUT_PREPROCESSINGS = (
    f"it takes {FEWEST_GROUPS} samples or more whose spectra are not preprocessed"
)

OUTLYING = 3.0
"""Half widths of its 90% interval that an outlying sample between the ends is off: 5 deviations."""

Scans = tuple[Int[np.ndarray, "scan"], Float[np.ndarray, "scan wavelength"]]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Methods fitted to samples, compared on samples left out, and what estimates.

    A sample has a spectrum and a known concentration. All methods but geonode take every sample by
    itself; geonode takes samples of one concentration for scans of one level. It takes no part with
    more than 50 levels, or where a fold would have fewer than three. All that `estimate` reads is
    numbers and arrays: the fitted methods, the curve of geonode, weights and the law of errors.
    """

    concentrations: OfSamples
    """Of the samples."""
    fitted: dict[str, Fitted]
    """The methods but geonode, by key of `NAMES`."""
    curve: Curve | None
    """Of geonode; None: there are too many levels, or too few."""
    absent: str
    """Why geonode takes no part."""
    left_out: dict[str, OfSamples]
    """Estimates of the samples without those of their fold, by method that took part."""
    method: str
    """Key of the method that estimates, of `NAMES`."""
    law: ErrorLaw | None
    """Of its errors; None: it is geonode."""
    sets: dict[str, Sets]
    """Intervals of the samples left out, by method: the one that estimates, and geonode."""
    level: float
    """Probability of the intervals, of samples left out and of unknowns."""

    @classmethod
    @one_thread()
    def fit(
        cls,
        spectra: Any,
        concentrations: Any,
        groups: Shaped[np.ndarray, "sample"] | None = None,
        *,
        method: str = "auto",
        offset: bool = False,
        scale: bool = False,
        scans: Scans | None = None,
        preprocessed: bool = False,
        level: float = COVERAGE,
        report: Progress = silent,
    ) -> "Calibration":
        """Fit all methods to samples, and weight them by the errors of groups of them left out.

        Args:
            spectra: of the samples, array-like of shape (sample, wavelength).
            concentrations: theirs, none negative, at least two different ones.
            groups: of samples that are left out together; None: those of one concentration that
                are nearer to each other than to all of other ones.
            method: key of `NAMES`; "auto": the combination, or geonode alone if that is no better
                than a guess, and geonode's sets hold and are shorter than its intervals.
            offset: for geonode, as of `Curve.of`.
            scale: as offset.
            scans: if samples are means: of which each is, and its spectrum. Unknowns are scans.
            preprocessed: whether the spectra are, so that no preprocessings are tried.
            level: of the intervals.
            report: called for every method, and for every fold of geonode.

        Raises:
            ParameterError: there is no such method or level, or geonode takes no part.
            SpectraError: numbers are not finite, of no usual size, negative, all equal or too few,
                or groups or scans are not those of the samples.
        """
        concentrations = real_array(concentrations, "concentrations", sample=None)
        spectra = real_array(spectra, "spectra", sample=len(concentrations), wavelength=None)
        groups = required_groups(spectra, concentrations, groups, method)
        of, scan = _required_scans(spectra, scans)
        folds = folds_of(concentrations, groups, spectra)
        methods: dict[str, Fitted] = {}
        for key in keys_for(folds, preprocessed=preprocessed):
            methods[key] = fitted(key, concentrations, spectra, folds)
            report(1)
        estimates = {key: method.left_out for key, method in methods.items()}
        sets, curve, absent = dict[str, Sets](), None, ""

        def curve_of(levels: np.ndarray, rows: np.ndarray) -> Curve:
            series = Series.of_rows(levels, rows, None, FEWEST_TO_CALIBRATE)
            return Curve.of(series, offset=offset, scale=scale, one_scan=True)

        def left_out(out: np.ndarray) -> Estimates:
            return estimate(curve_of(concentrations[~out], spectra[~out]), spectra[out], level)

        try:
            curve = curve_of(concentrations[of], scan)  # first, as it may say why there is none
            outs = [folds == fold for fold in range(folds.max() + 1)]
            of_geonode = Estimates.joined(in_threads(left_out, outs, report))
            back = np.argsort(np.concatenate([np.flatnonzero(out) for out in outs]))
            estimates["geonode"] = of_geonode.mode[back]
            sets["geonode"] = [of_geonode.sets[place] for place in back]
        except (SpectraError, TrainingError) as error:
            curve, absent = None, f"geonode takes no part: {error}"
        leverages = {key: method.leverages for key, method in methods.items()}
        by_all = combined_left_out(concentrations, estimates, leverages, folds)
        estimates["combined"], leverages["combined"] = by_all
        combined = intervals_left_out(concentrations, *by_all, groups, folds, level)
        chosen = _chosen(method, Verdict.of(concentrations, estimates), sets, combined, level)
        if chosen not in estimates:
            absent = absent if chosen == "geonode" else WITHOUT_PREPROCESSINGS
            raise ParameterError("calibration", "method", chosen, f"another: {absent}")
        whole = cls(concentrations, methods, curve, absent, estimates, chosen, None, sets, level)
        if chosen == "geonode":
            return whole
        own, its = estimates[chosen], leverages[chosen]
        sets[chosen] = intervals_left_out(concentrations, own, its, groups, folds, level)
        errors = (own - concentrations)[of]
        if scans:
            errors += whole._estimated(scan)[0] - whole._estimated(spectra)[0][of]
        return replace(whole, law=ErrorLaw.of(concentrations[of], errors, its[of], groups[of]))

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict on all methods that took part, and their combination."""
        return Verdict.of(self.concentrations, self.left_out)

    @one_thread()
    def estimate(
        self, spectra: Any, of_geonode: OfUnknowns | None = None, level: float | None = None
    ) -> tuple[OfUnknowns, EndsOfUnknowns]:
        """Concentrations of unknown spectra by the method in use, and their intervals.

        Intervals are infinite where nothing tells how wide they are.

        Args:
            spectra: array-like of shape (unknown, wavelength).
            of_geonode: the likeliest concentrations by `by_geonode`, if they are known.
            level: of the intervals; None: that of the calibration.

        Raises:
            ParameterError: the level is none.
            SpectraError: as `real_array`, or spectra have other wavelengths than the samples.
        """
        wavelengths = self.fitted["pls"].wavelengths if self.law else None
        spectra = real_array(spectra, "spectra", unknown=None, wavelength=wavelengths)
        if self.law is None:
            found = self.by_geonode(spectra, level)
            ends = [(parts[0][0], parts[-1][1]) for parts in found.sets]
            return found.mode, np.array(ends).reshape(-1, 2)
        if of_geonode is not None:
            of_geonode = real_array(of_geonode, "of_geonode", unknown=len(spectra))
        middle, leverages = self._estimated(spectra, of_geonode)
        level = self.level if level is None else level
        return middle, self.law.intervals(middle, leverages, level)

    def _estimated(
        self, spectra: np.ndarray, of_geonode: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Estimates by the combination or a method but geonode, and their leverages."""
        if self.method in self.fitted:
            one = self.fitted[self.method]
            return one.estimates(spectra), one.leverages_of(spectra)
        combination = self.verdict.combination
        used = {key: one for key, one in self.fitted.items() if combination.weights[key]}
        estimates = {key: one.estimates(spectra) for key, one in used.items()}
        if combination.weights.get("geonode"):
            known = self.by_geonode(spectra).mode if of_geonode is None else of_geonode
            estimates["geonode"] = known
        leverages = {key: one.leverages_of(spectra) for key, one in used.items()}
        return combination.of_methods(estimates, leverages)

    @one_thread()
    def by_geonode(self, spectra: Any, level: float | None = None) -> Estimates:
        """Concentrations and sets of unknown spectra by geonode; arguments as of `estimate`.

        Raises:
            SpectraError: as `estimate`, or geonode has no curve.
        """
        if self.curve is None:
            raise SpectraError(self.absent)
        spectra = real_array(spectra, "spectra", unknown=None, wavelength=None)
        return estimate(self.curve, spectra, self.level if level is None else level)

    def covered(self, method: str) -> Bool[np.ndarray, "sample"]:
        """True where the interval of a method (a key of `sets`) contains the left-out sample."""
        return are_covered(self.concentrations, self.sets[method])

    @property
    def warnings(self) -> list[str]:
        """Sentences that a reader must know before using what estimates."""
        sentences, covered, count = [], self.covered(self.method), len(self.concentrations)
        if are_few(covered, self.level):
            sentences.append(
                f"Warning: {covered.sum()} of {count} known levels inside their interval; about "
                f"{self.level * count:.0f} expected."
            )
        used = self.verdict.by_key(self.method)
        if (share := used.scores.rmsep_of_range) >= LARGEST_ERROR:
            sentences.append(
                f"Warning: the error (RMSEP) is {share:.0%} of the range of the levels, so that "
                "estimates tell little more than low from high."
            )
        relative = self.verdict.relative_error(used)
        if relative is not None and relative >= LARGEST_RELATIVE:
            sentences.append(
                f"Warning: the error is {relative:.0%} of the level over decades, so that "
                "estimates tell little more than the order of magnitude."
            )
        if self.law is None:
            return sentences
        known = self.concentrations
        away = used.estimates - known
        half = np.array([parts[0][1] - parts[0][0] for parts in self.sets[self.method]]) / 2
        half *= ndtri((1 + COVERAGE) / 2) / ndtri((1 + self.level) / 2)
        outlying = (np.abs(away) > OUTLYING * half) & (known > known.min()) & (known < known.max())
        for place in np.flatnonzero(outlying):
            sentences.append(
                f"Warning: sample {place + 1}, of {number(float(known[place]))}, is estimated "
                f"{number(float(away[place]), 2)} off by the others, "
                f"{abs(away[place]) / half[place]:.0f} times what its interval allows: look "
                "whether it was mistaken."
            )
        return sentences


def required_groups(
    spectra: Float[np.ndarray, "sample wavelength"],
    concentrations: OfSamples,
    groups: Shaped[np.ndarray, "sample"] | None,
    method: str,
) -> Groups:
    """Groups of samples that are left out together, from 0 on; by default scans of one preparation.

    Raises:
        ParameterError: there is no such method.
        SpectraError: a concentration is negative, all are the same, or groups are no labels of the
            samples, or one group alone.
    """
    if method not in ("auto", *NAMES):
        raise ParameterError("calibration", "method", method, f"auto, {', '.join(NAMES)}")
    if (concentrations < 0).any():
        raise SpectraError("concentrations: found a negative one, expected numbers from 0")
    levels = without_rounding(concentrations)
    if len(np.unique(levels)) < 2:
        found = f"1 different concentration in {len(spectra)} samples"
        raise SpectraError(f"found {found}, expected two or more")
    if groups is None:
        groups = _scans_of_a_preparation(spectra, levels)
    try:
        different, group = np.unique(groups, return_inverse=True)
    except (TypeError, ValueError) as error:
        raise SpectraError(
            f"groups: found labels that are not compared ({error}), expected a number or a text of "
            "every sample"
        ) from error
    missing = np.ma.is_masked(groups) or (different != different).any()  # noqa: PLR0124 - NaN
    if missing or np.shape(groups) != levels.shape or len(different) < 2:
        what = "masked ones or NaN" if missing else f"{len(different)} different ones"
        raise SpectraError(
            f"groups: found {what} in an array of shape {np.shape(groups)}, expected a label of "
            f"each of {len(levels)} samples, and two different ones or more"
        )
    return group


def _required_scans(spectra: Float[np.ndarray, "sample wavelength"], scans: Scans | None) -> Scans:
    """Sample of every scan, and its spectrum: without scans, the samples themselves.

    Raises:
        SpectraError: spectra of scans are none, or a sample has none.
    """
    places = np.arange(len(spectra))
    of, scan = scans or (places, spectra)
    scan = real_array(scan, "scans", scan=len(of), wavelength=spectra.shape[1])
    if not np.array_equal(np.unique(of), places):
        expected = f"places of samples, each of {len(spectra)} with a scan"
        raise SpectraError(f"scans: found {np.unique(of)[:5].tolist()}, expected {expected}")
    return of, scan


def _scans_of_a_preparation(spectra: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Groups of samples of one concentration that are nearer to each other than to all others."""
    # Samples of one concentration that differ as much as those of different ones are compositions
    # in which something else varies. A method must tell them apart: they are left out one by one.
    _, level, counts = np.unique(levels, return_inverse=True, return_counts=True)
    centred, groups = spectra - spectra.mean(axis=0), np.arange(len(levels))
    if counts.max() == 1:
        return groups
    from sklearn.metrics import pairwise_distances, pairwise_distances_argmin_min  # noqa: PLC0415

    rounding = ROUNDING_OF_SPECTRA * np.sum(centred**2, axis=1).max()
    for one in np.flatnonzero(counts > 1):
        own, others = centred[level == one], centred[level != one]
        nearest = pairwise_distances_argmin_min(own, others)[1] ** 2
        limit = (1 + EQUAL) * np.minimum(nearest[:, None], nearest) + rounding
        near = pairwise_distances(own) ** 2 <= limit
        _, preparation = connected_components(near, directed=False)
        groups[level == one] = np.flatnonzero(level == one)[preparation]
    return groups


def _chosen(
    method: str, verdict: Verdict, sets: dict[str, Sets], combined: Sets, level: float
) -> str:
    """Key of what estimates, by the sets of geonode and the intervals of the combination."""
    if method != "auto":
        return method
    if verdict.chosen or "geonode" not in sets:
        return "combined"
    # Where spectra of two concentrations are alike, all point estimates fail; its sets have both.
    few = are_few(are_covered(verdict.levels, sets["geonode"]), level)
    own, others = (np.median(lengths_of(one)) for one in (sets["geonode"], combined))
    return "geonode" if own < (1 - EQUAL) * others and not few else "combined"


def are_few(covered: Bool[np.ndarray, "sample"], level: float) -> bool:
    """True if so few sets that cover are unlikely, where each should with a probability `level`."""
    return bool(bdtr(covered.sum(), len(covered), level) < UNLIKELY)
