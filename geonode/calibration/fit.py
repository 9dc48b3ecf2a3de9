"""Calibration: methods are compared on left-out samples, and one of them estimates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform
from scipy.special import bdtr  # scipy.stats takes 0.3 s to import

from geonode.calibration.intervals import ErrorLaw, Sets, are_held, intervals_left_out
from geonode.calibration.methods import CALIBRATIONS, FEWEST_GROUPS, PREPROCESSED, Fitted, fitted, folds_of
from geonode.calibration.verdict import NAMES, Verdict, chosen_without
from geonode.compute.threads import in_threads, one_thread
from geonode.errors import ParameterError, SpectraError, TrainingError
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import Estimates, estimate
from geonode.estimation.rows import series_of
from geonode.posterior.prior import COVERAGE
from geonode.progress import Progress, silent
from geonode.spectra.arrays import real_array
from geonode.spectra.table import without_rounding
from geonode.ties import EQUAL

FEWEST_LEVELS = 3
"""Of a fold of geonode: as many as a series of four leaves."""

UNLIKELY = 0.05
"""Probability of so few intervals that hold, if they hold as often as they should."""

LARGEST_ERROR = 0.25
"""RMSEP as a share of the range, from which the estimates tell little."""

Samples = Float[np.ndarray, "sample"]
Spectra = Float[np.ndarray, "sample wavelength"]
Scans = tuple[Int[np.ndarray, "scan"], Float[np.ndarray, "scan wavelength"]]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Methods fitted to samples, compared on samples left out, and the one that estimates.

    A sample has a spectrum and a known concentration. All methods but geonode take every sample by
    itself; geonode takes samples of one concentration for scans of one level. It takes no part with
    more than 50 levels, or where a fold would have fewer than three. All that `estimate` reads is
    numbers and arrays: the fitted method and the law of its errors, or the curve of geonode.

    Attributes:
        concentrations: of the samples.
        fitted: the methods but geonode, by key of `NAMES`.
        curve: of geonode; None: there are too many levels, or too few.
        absent: why geonode takes no part.
        verdict: on all methods that took part.
        method: which estimates, a key of `NAMES`.
        law: of its errors; None: it is geonode.
        sets: 90% intervals of the samples left out, by method: the one that estimates, and geonode.
    """

    concentrations: Samples
    fitted: dict[str, Fitted]
    curve: Curve | None
    absent: str
    verdict: Verdict
    method: str
    law: ErrorLaw | None
    sets: dict[str, Sets]

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
        report: Progress = silent,
    ) -> "Calibration":
        """Fit all methods to samples, and choose one by the errors of samples left out.

        Groups are left out one by one; more than 20 of them in ten parts.

        Args:
            spectra: of the samples, array-like of shape (sample, wavelength).
            concentrations: theirs, none negative, at least two different ones.
            groups: of samples that are left out together; None: those of one concentration that
                are nearer to each other than to all of other ones.
            method: a key of `NAMES`, to estimate by; "auto": the simplest of the best.
            offset: for geonode, as of `Curve.of`.
            scale: for geonode, as of `Curve.of`.
            scans: if samples are means: of which each is, and its spectrum. Unknowns are scans.
            preprocessed: whether the spectra are preprocessed, so that no further preprocessings
                are tried.
            report: called for every fold.

        Raises:
            ParameterError: there is no such method, or it is geonode and takes no part.
            SpectraError: samples are not finite or of no usual size, concentrations negative, all
                equal or not as many.
        """
        concentrations = real_array(concentrations, "concentrations", sample=None)
        spectra = real_array(spectra, "spectra", sample=len(concentrations), wavelength=None)
        groups = _required_groups(spectra, concentrations, groups, method)
        of, scan = scans or (np.arange(len(spectra)), spectra)
        folds = folds_of(concentrations, groups)
        # Preprocessed already, or too few to weigh preprocessings: PLS alone.
        only_plain = preprocessed or groups.max() + 1 < FEWEST_GROUPS
        keys = [key for key in CALIBRATIONS if key != PREPROCESSED or not only_plain]
        found = {key: fitted(key, concentrations, spectra, folds) for key in keys}
        estimates = {name: one.left_out for name, one in found.items()}
        sets: dict[str, Sets] = {}
        curve, law, absent = None, None, ""

        def curve_of(levels: np.ndarray, rows: np.ndarray) -> Curve:
            series = series_of(levels, rows, None, FEWEST_LEVELS)
            return Curve.of(series, offset=offset, scale=scale, one_scan=True)

        def left_out(out: np.ndarray) -> Estimates:
            return estimate(curve_of(concentrations[~out], spectra[~out]), spectra[out])

        try:
            whole = curve_of(concentrations[of], scan)  # first, as it may say why there is none
            outs = [folds == fold for fold in range(folds.max() + 1)]
            of_geonode = Estimates.joined(in_threads(left_out, outs, report))
            back = np.argsort(np.concatenate([np.flatnonzero(out) for out in outs]))
            estimates["geonode"] = of_geonode.mode[back]
            sets["geonode"] = [of_geonode.sets[place] for place in back]
            curve = whole
        except (SpectraError, TrainingError) as error:
            absent = f"geonode takes no part: {error}"
        verdict = Verdict.of(concentrations, estimates)
        chosen = _chosen(method, verdict, sets)
        if chosen not in estimates:
            raise ParameterError("calibration", "method", chosen, f"another: {absent}")
        if chosen in found:
            # Errors are those of the method that the other groups choose: they flatter none.
            tried = {name: one for name, one in estimates.items() if method in {"auto", name}}
            place = chosen_without(concentrations, tried, groups), np.arange(len(spectra))
            errors = np.stack([*tried.values()])[place] - concentrations
            none = np.zeros(len(spectra))
            all_leverages = [found[name].leverages if name in found else none for name in tried]
            leverages, one = np.stack(all_leverages)[place], found[chosen]
            sets[chosen] = intervals_left_out(concentrations, errors, leverages, groups, one)
            away = one.estimates(scan) - one.estimates(spectra)[of]
            law = ErrorLaw.of(concentrations[of], errors[of] + away, leverages[of], groups[of])
        return cls(concentrations, found, curve, absent, verdict, chosen, law, sets)

    @one_thread()
    def estimate(
        self, spectra: Any
    ) -> tuple[Float[np.ndarray, "unknown"], Float[np.ndarray, "unknown 2"]]:
        """Concentrations of unknown spectra by the chosen method, and their 90% intervals.

        Intervals are infinite where nothing tells how wide they are.

        Args:
            spectra: array-like of shape (unknown, wavelength).

        Raises:
            SpectraError: as `real_array`, or spectra have other wavelengths than the samples.
        """
        wavelengths = self.fitted[self.method].wavelengths if self.law else None
        spectra = real_array(spectra, "spectra", unknown=None, wavelength=wavelengths)
        if self.law is None:
            found = self.by_geonode(spectra)
            ends = [(parts[0][0], parts[-1][1]) for parts in found.sets]
            return found.mode, np.array(ends).reshape(-1, 2)
        chosen = self.fitted[self.method]
        middle = chosen.estimates(spectra)
        half = self.law.half_widths(middle, chosen.leverages_of(spectra))
        return middle, np.stack([middle - half, middle + half], axis=1)

    @one_thread()
    def by_geonode(self, spectra: Any) -> Estimates:
        """Concentrations and 90% sets of unknown spectra by geonode, whatever the method is.

        Raises:
            SpectraError: as `estimate`, or geonode has no curve.
        """
        if self.curve is None:
            raise SpectraError(self.absent)
        return estimate(self.curve, real_array(spectra, "spectra", unknown=None, wavelength=None))

    def held(self, method: str) -> Bool[np.ndarray, "sample"]:
        """Whether the intervals of a method (a key of `sets`) hold the left-out samples."""
        return are_held(self.concentrations, self.sets[method])

    @property
    def warnings(self) -> list[str]:
        """Sentences that a reader must know before using the chosen method."""
        found, held = [], self.held(self.method)
        if _are_few(held):
            found.append(
                f"Warning: {held.sum()} of {len(held)} known levels inside their interval; about "
                f"{COVERAGE * len(held):.0f} expected."
            )
        share = self.verdict.by_key(self.method).scores.rmsep_of_range
        if share >= LARGEST_ERROR:
            found.append(
                f"Warning: the error (RMSEP) is {share:.0%} of the range of the levels, so that "
                "estimates tell little more than low from high."
            )
        return found


def _required_groups(
    spectra: np.ndarray, concentrations: np.ndarray, groups: np.ndarray | None, method: str
) -> np.ndarray:
    """Groups from 0 on, by default of scans of one preparation.

    Raises:
        ParameterError, SpectraError: as `Calibration.fit`.
    """
    if method not in {"auto", *NAMES}:
        raise ParameterError("calibration", "method", method, f"auto, {', '.join(NAMES)}")
    if (concentrations < 0).any():
        raise SpectraError("concentrations: found a negative one, expected numbers from 0")
    levels = without_rounding(concentrations)
    if len(np.unique(levels)) < 2:
        found = f"1 different concentration in {len(spectra)} samples"
        raise SpectraError(f"found {found}, expected two or more")
    if groups is None:
        groups = _scans_of_a_preparation(spectra, levels)
    return np.unique(groups, return_inverse=True)[1]


def _scans_of_a_preparation(spectra: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Groups of samples of one concentration that are nearer to each other than to all others.

    Samples of one concentration that differ as much as those of different ones are compositions in
    which something else varies. A method must tell them apart, and they are left out one by one.
    """
    apart = squareform(pdist(spectra - spectra.mean(axis=0)))
    same = levels[:, None] == levels
    nearest = np.where(same, np.inf, apart).min(axis=1)
    linked = same & (apart <= (1 + EQUAL) * np.minimum(nearest[:, None], nearest))
    return connected_components(linked, directed=False)[1]


def _chosen(method: str, verdict: Verdict, sets: dict[str, Sets]) -> str:
    """Key of the method that estimates.

    If none counts, it is geonode if its sets hold: where spectra of two concentrations are alike,
    all point estimates fail, and its sets have both.
    """
    if method != "auto":
        return method
    if verdict.chosen is None and "geonode" in sets:
        return (
            verdict.best.key if _are_few(are_held(verdict.levels, sets["geonode"])) else "geonode"
        )
    return verdict.used.key


def _are_few(held: np.ndarray) -> bool:
    """Whether it is unlikely that so few sets hold, if nine of ten should."""
    return bool(bdtr(held.sum(), len(held), COVERAGE) < UNLIKELY)
