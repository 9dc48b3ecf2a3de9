"""Parameters of the pipeline: one block per stage, with units and ranges of all fields.

Stages read `params.yaml` into `Parameters`. The library takes the blocks it needs and never reads
the file itself.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from geonode.parameter_types import (
    Block,
    Finite,
    Interval,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    PositiveInterval,
    PreprocessStep,
    Seed,
    Text,
)


class PrecisionParameters(Block):
    """Floating-point formats."""

    training: Literal["float32", "float64", "tf32", "bfloat16"] = Field(
        description="format in which metrics and decoders are trained; the last two round the "
        "factors of products of layers, and the rest is float32 (tf32: cuda alone)"
    )
    geometry: Literal["auto", "float32", "float64"] = Field(
        description="format in which grids and geodesics are computed; "
        "auto is float64 where the device has it and float32 on mps"
    )


class AxisParameters(Block):
    """Uniform axis."""

    start: Finite = Field(description="first wavelength (nm)")
    stop: Finite = Field(description="last wavelength, included (nm)")
    step: Positive = Field(description="spacing (nm)")

    @model_validator(mode="after")
    def _ascending(self) -> "AxisParameters":
        if self.stop <= self.start:
            raise ValueError("stop must be greater than start")
        return self


class NoiseParameters(Block):
    """Instrument noise of the synthetic spectra."""

    detector: NonNegative = Field(description="white noise of every reading (absorbance)")
    scatter: NonNegative = Field(description="multiplicative error of a spectrum (relative)")
    offset: NonNegative = Field(description="baseline offset of a spectrum (absorbance)")
    slope: NonNegative = Field(description="baseline tilt, centre to edge (absorbance)")


class EngineParameters(Block):
    """Processes that compute, which do not affect the bytes of the results."""

    kind: Literal["local", "dask"] = Field(
        description="local, this machine; or dask, worker processes with one thread each"
    )
    scheduler: Text | None = Field(
        description="address of a running Dask cluster, such as tcp://host:8786 "
        "(null: one on this machine, for as long as the stage runs)"
    )
    workers: PositiveInt = Field(description="processes of a cluster on this machine")

    @model_validator(mode="after")
    def _consistent(self) -> "EngineParameters":
        if self.kind == "local" and self.scheduler is not None:
            raise ValueError("scheduler must be null unless kind is dask")
        return self


class GenerateParameters(Block):
    """Synthetic spectra."""

    seed: Seed = Field(description="seed of the noise")
    concentrations: list[NonNegative] = Field(
        min_length=4, max_length=50, description="measured levels (ppb)"
    )
    replicates: PositiveInt = Field(description="scans of every level")
    wavelengths: AxisParameters
    noise: NoiseParameters


class SpectraParameters(Block):
    """Measured table and its chart."""

    source: Text = Field(
        description="file of spectra (text, Excel, JCAMP-DX, SPC, NetCDF or Zarr), or a folder of "
        "files with one spectrum each",
    )
    sheet: Text | None = Field(
        default=None, description="of a workbook (null: the one that is not empty)"
    )
    concentrations: Text | None = Field(
        default=None,
        description="second table of names and concentrations (null: the names say them)",
    )
    replicates: Literal["ask", "marks", "levels"] = Field(
        default="ask",
        description="what a column 20.1 beside 20 is: an error that asks, a further scan of 20, or "
        "a level of its own; with marks, a second column 20 is a further scan too",
    )
    quantity: Text = Field(description="what was measured, for labels")
    unit: Text = Field(description="unit of the spectra, for labels (1: dimensionless)")
    concentration_unit: Text | None = Field(
        description="unit of the levels, for labels (null: that of the file, or none)"
    )
    chart: Literal["linear", "log", "asinh"] = Field(
        description="concentration chart: c, ln c, or asinh(c / kappa), each scaled to [-1, 1]"
    )
    kappa: Positive | None = Field(description="kappa of the asinh chart (concentration unit)")
    window: Interval | None = Field(description="part of the axis to use [low, high] (axis unit)")
    missing: Literal["refuse", "mask"] = Field(
        description="an empty or NaN cell is an error, or its whole wavelength is left out"
    )
    preprocess: list[PreprocessStep] = Field(
        default=[], description="steps in this order: snv, savgol, asls; each spectrum by itself"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "SpectraParameters":
        if (self.chart == "asinh") != (self.kappa is not None):
            raise ValueError("kappa must be given for the asinh chart, and for no other")
        return self


class TrainingParameters(Block):
    """Parameters common to the training of metrics and of decoders."""

    seed: Seed = Field(description="seed of the initial weights")
    members: PositiveInt = Field(description="independent models of every fold (ensemble)")
    epochs: PositiveInt = Field(description="full-batch steps of Adam")
    wavelengths: Annotated[int, Field(ge=2)] = Field(
        description="evenly spaced wavelengths to train on (all, if the axis has fewer)"
    )
    gradient_clip: Positive = Field(description="largest norm of the gradient of one model")
    checkpoint_every: NonNegativeInt = Field(
        description="epochs from one checkpoint of the training to the next (0: none)"
    )


class MetricParameters(TrainingParameters):
    """Learning of the metric."""

    learning: Literal["flat", "end_to_end", "shared"] = Field(
        description="straight geodesics on the given chart; a network for every fold, trained "
        "together with a decoder on a chart chosen by evidence; or one for all folds, which leaks"
    )
    evidence_margin: NonNegative | None = Field(
        description="log likelihood, per wavelength, by which a chart must beat the given one "
        "(null: none does)"
    )
    learning_rate: Positive = Field(description="of the metric network")
    decoder_learning_rate: Positive = Field(description="of the decoder trained along with it")
    quadrature_nodes: Annotated[int, Field(ge=2, le=64)] = Field(
        description="Gauss-Legendre nodes between neighbouring concentrations"
    )
    smoothness_weight: NonNegative = Field(description="of the mean squared Christoffel symbol")
    bounds_weight: NonNegative = Field(description="of the excess of ln g over the bounds")
    bounds: PositiveInterval = Field(description="range that g may use freely [low, high]")
    length_weight: NonNegative = Field(description="of the mean squared geodesic length")


class InnerParameters(Block):
    """Leave-one-out inside every fold, for weights of decoders and calibration of intervals."""

    members: NonNegativeInt = Field(
        description="models of every inner fold; 0: no inner folds, no blend and no intervals"
    )
    levels: Annotated[int, Field(ge=2)] | None = Field(
        description="largest number of levels left out in turn inside every fold (null: all)"
    )


class ChristoffelParameters(Block):
    """Grid of Christoffel symbols."""

    resolution: Annotated[int, Field(ge=4)] = Field(description="evenly spaced concentration nodes")
    tolerance: Positive = Field(
        description="largest error of ln sqrt(g) and of the Christoffel symbol between nodes; "
        "a resolution that misses it is an error"
    )
    method: Literal["chebyshev", "direct"] = Field(
        description="expand the metric in Chebyshev polynomials, or call the network at every node"
    )
    expansion_tolerance: Positive = Field(
        description="largest trailing coefficient of the Chebyshev expansion of ln sqrt(g)"
    )
    largest_degree: Annotated[int, Field(ge=8, le=2048)] = Field(
        description="degree of the expansion beyond which a metric is refused as too sharp"
    )
    check_positions: PositiveInt = Field(
        description="random concentrations, per model, at which the grid is checked in float64"
    )


class GeodesicsParameters(Block):
    """Boundary value problems."""

    method: Literal["closed_form", "newton", "dopri5", "scipy"] = Field(
        description="method that solves for first velocities"
    )
    tolerance: Positive = Field(
        description="largest endpoint residual of a solved geodesic (chart)"
    )
    patience: PositiveInt = Field(
        description="successive shots of newton or dopri5 within the tolerance that end them"
    )
    steps: PositiveInt = Field(description="in time, of every shot of newton")
    time_points: NonNegativeInt = Field(
        description="points of the stored trajectories (0: none are stored, otherwise at least 2)"
    )
    check_rows: PositiveInt = Field(
        description="random geodesics, per model, integrated again on the network in float64"
    )
    allow_unconverged: NonNegativeInt = Field(description="geodesics that may miss their target")

    @model_validator(mode="after")
    def _two_ends(self) -> "GeodesicsParameters":
        if self.time_points == 1:
            raise ValueError("time_points must be 0 or at least 2")
        return self


class DecodersParameters(TrainingParameters):
    """Leave-one-out decoders; all parameters except the kind are of path decoders."""

    kind: Literal["blend", "posterior", "path"] = Field(
        description="posterior over metrics, an average of closed forms; path, the published "
        "perceptrons on path features; or a blend of both, weighed by inner leave-one-out"
    )
    learning_rate: Positive = Field(description="at first; it falls to zero as half a cosine wave")


class ValidateParameters(Block):
    """Scores."""

    bands: dict[str, Interval] = Field(
        description="further wavelength bands to score, name: [low, high] (axis unit)"
    )


class BenchmarkParameters(Block):
    """Timing."""

    sequential_wavelengths: PositiveInt = Field(
        description="wavelengths at which the sequential method runs one fold"
    )
    repeats: PositiveInt = Field(description="repetitions of every short timing")


class AblationParameters(Block):
    """Series and seeds of the ablation."""

    folder: Text = Field(description="folder of files of spectra, one per series")
    seeds: Annotated[list[Seed], Field(min_length=1)] = Field(
        description="seeds of metrics and decoders, one run each"
    )
    simulated: PositiveInt = Field(
        description="simulated series to score the posterior on, of each of five numbers of levels"
    )


class Parameters(Block):
    """All parameters of params.yaml."""

    preset: str = Field(description="one of presets, whose values replace those of the blocks")
    presets: dict[str, dict[str, Any]] = Field(
        description="by name: values by dotted key, such as {decoders.members: 16}"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        description="where to compute; auto takes cuda, then mps, then cpu"
    )
    memory_mb: PositiveInt | None = Field(
        description="memory of a process for one batch of models or tile of geodesics (MB, 10^6 "
        "bytes; null: by the profile of the device)"
    )
    precision: PrecisionParameters
    engine: EngineParameters
    generate: GenerateParameters
    spectra: SpectraParameters
    inner: InnerParameters
    metric: MetricParameters
    christoffel: ChristoffelParameters
    geodesics: GeodesicsParameters
    decoders: DecodersParameters
    validation: ValidateParameters = Field(alias="validate")
    benchmark: BenchmarkParameters
    ablation: AblationParameters

    def seeded(self, seed: int) -> "Parameters":
        """Copy with another seed of metrics and decoders."""
        metric = self.metric.model_copy(update={"seed": seed})
        decoders = self.decoders.model_copy(update={"seed": seed})
        return self.model_copy(update={"metric": metric, "decoders": decoders})
