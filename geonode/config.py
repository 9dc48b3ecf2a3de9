"""Parameters of the pipeline: one block per stage, with units, ranges and defaults of all fields.

Stages read `params.yaml` into `Parameters`. The library takes the blocks that it needs and never
reads the file itself.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from geonode.parameter_types import (
    Block,
    Finite,
    Interval,
    Level,
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
        default="float32",
        description="format in which metrics and decoders are trained; the last two round the "
        "factors of products of layers, and the rest is float32 (tf32: cuda alone)",
    )
    geometry: Literal["auto", "float32", "float64"] = Field(
        default="auto",
        description="format in which grids and geodesics are computed; "
        "auto is float64 where the device has it and float32 on mps",
    )


class AxisParameters(Block):
    """Uniform axis."""

    start: Finite = Field(default=200.0, description="first wavelength (nm)")
    stop: Finite = Field(default=800.0, description="last wavelength, included (nm)")
    step: Positive = Field(default=1.0, description="spacing (nm)")

    @model_validator(mode="after")
    def _ascending(self) -> "AxisParameters":
        if self.stop <= self.start:
            raise ValueError("stop must be greater than start")
        return self


class NoiseParameters(Block):
    """Instrument noise of the synthetic spectra."""

    detector: NonNegative = Field(
        default=0.001, description="white noise of every reading (absorbance)"
    )
    scatter: NonNegative = Field(
        default=0.005, description="multiplicative error of a spectrum (relative)"
    )
    offset: NonNegative = Field(
        default=0.001, description="baseline offset of a spectrum (absorbance)"
    )
    slope: NonNegative = Field(
        default=0.001, description="baseline tilt, centre to edge (absorbance)"
    )


class EngineParameters(Block):
    """Processes that compute, which do not affect the bytes of the results."""

    kind: Literal["local", "dask"] = Field(
        default="local",
        description="local, this machine; or dask, worker processes with one thread each",
    )
    scheduler: Text | None = Field(
        default=None,
        description="address of a running Dask cluster, such as tcp://host:8786 "
        "(null: one on this machine, for as long as the stage runs)",
    )
    workers: PositiveInt = Field(default=2, description="processes of a cluster on this machine")

    @model_validator(mode="after")
    def _consistent(self) -> "EngineParameters":
        if self.kind == "local" and self.scheduler is not None:
            raise ValueError("scheduler must be null unless kind is dask")
        return self


class GenerateParameters(Block):
    """Synthetic spectra."""

    seed: Seed = Field(default=0, description="seed of the noise")
    concentrations: list[NonNegative] = Field(
        default=[0.0, 10.0, 20.0, 30.0, 40.0, 60.0],
        min_length=4,
        max_length=50,
        description="measured levels (ppb)",
    )
    replicates: PositiveInt = Field(default=3, description="scans of every level")
    wavelengths: AxisParameters = AxisParameters()
    noise: NoiseParameters = NoiseParameters()


class SpectraParameters(Block):
    """Measured table and its chart."""

    source: Text = Field(
        default="data/synthetic.csv",
        description="file of spectra (text, Excel, JCAMP-DX, SPC, Zarr or NetCDF), or a "
        "folder of files with one spectrum each",
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
    target: Text | None = Field(
        default=None,
        description="which amount to take where a table gives several (null: the only one)",
    )
    quantity: Text = Field(default="absorbance", description="what was measured, for labels")
    unit: Text = Field(
        default="1", description="unit of the spectra, for labels (1: dimensionless)"
    )
    concentration_unit: Text | None = Field(
        default="ppb",
        description="unit of the levels, for labels (null: that of the file, or none)",
    )
    chart: Literal["linear", "log", "asinh"] = Field(
        default="linear",
        description="concentration chart: c, ln c, or asinh(c / kappa), each scaled to [-1, 1]",
    )
    kappa: Positive | None = Field(
        default=None, description="kappa of the asinh chart (concentration unit)"
    )
    window: Interval | None = Field(
        default=None, description="part of the axis to use [low, high] (axis unit)"
    )
    missing: Literal["refuse", "mask"] = Field(
        default="refuse",
        description="an empty or NaN cell is an error, or its whole wavelength is left out, as are "
        "those at which a detector was stuck",
    )
    preprocess: list[PreprocessStep] = Field(
        default=[],
        description="steps in this order: absorbance, kubelka_munk, snv, savgol, asls; each "
        "spectrum by itself",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "SpectraParameters":
        if (self.chart == "asinh") != (self.kappa is not None):
            raise ValueError("kappa must be given for the asinh chart, and for no other")
        return self


class TrainingParameters(Block):
    """Parameters common to the training of metrics and of decoders."""

    seed: Seed = Field(default=0, description="seed of the initial weights")
    members: PositiveInt = Field(
        default=1, description="independent models of every fold (ensemble)"
    )
    epochs: PositiveInt = Field(default=300, description="full-batch steps of Adam")
    wavelengths: Annotated[int, Field(ge=2)] | None = Field(
        default=16,
        description="evenly spaced wavelengths to train on (all, if the axis has fewer; null: all, "
        "and decoders are read at each of them, without interpolation)",
    )
    sources: PositiveInt | None = Field(
        default=3,
        description="levels from which geodesics to every level are trained on (null: all)",
    )
    gradient_clip: Positive = Field(
        default=1.0, description="largest norm of the gradient of one model"
    )
    checkpoint_every: NonNegativeInt = Field(
        default=0, description="epochs from one checkpoint of the training to the next (0: none)"
    )


class MetricParameters(TrainingParameters):
    """Learning of the metric."""

    learning: Literal["flat", "end_to_end", "shared"] = Field(
        default="end_to_end",
        description="straight geodesics on the given chart; a network for every fold, trained "
        "together with a decoder on a chart chosen by evidence; or one for all folds, which leaks",
    )
    evidence_margin: NonNegative | None = Field(
        default=1.0,
        description="log likelihood, per wavelength, by which a chart must beat the given one "
        "(null: none does)",
    )
    learning_rate: Positive = Field(default=0.005, description="of the metric network")
    decoder_learning_rate: Positive = Field(
        default=0.01, description="of the decoder trained along with it"
    )
    quadrature_nodes: Annotated[int, Field(ge=2, le=64)] = Field(
        default=3, description="Gauss-Legendre nodes between neighbouring concentrations"
    )
    smoothness_weight: NonNegative = Field(
        default=0.0001, description="of the mean squared Christoffel symbol"
    )
    bounds_weight: NonNegative = Field(
        default=0.1, description="of the excess of ln g over the bounds"
    )
    bounds: PositiveInterval = Field(
        default=(0.2, 5.0), description="range that g may use freely [low, high]"
    )
    length_weight: NonNegative = Field(
        default=0.0001, description="of the mean squared geodesic length"
    )


class InnerParameters(Block):
    """Leave-one-out inside every fold, for weights of decoders and calibration of intervals."""

    members: NonNegativeInt = Field(
        default=1,
        description="models of every inner fold; 0: no inner folds, no blend and no intervals",
    )
    levels: Annotated[int, Field(ge=2)] | None = Field(
        default=2,
        description="largest number of levels left out in turn inside every fold (null: all)",
    )


class ChristoffelParameters(Block):
    """Grid of Christoffel symbols."""

    resolution: Annotated[int, Field(ge=4)] = Field(
        default=2000, description="evenly spaced concentration nodes"
    )
    tolerance: Positive = Field(
        default=0.0001,
        description="largest error of ln sqrt(g) and of the Christoffel symbol between nodes; "
        "a resolution that misses it is an error",
    )
    expansion_tolerance: Positive = Field(
        default=3e-10,
        description="largest trailing coefficient of the Chebyshev expansion of ln sqrt(g)",
    )
    largest_degree: Annotated[int, Field(ge=8, le=2048)] = Field(
        default=512,
        description="degree of the expansion beyond which a metric is refused as too sharp",
    )
    check_positions: PositiveInt = Field(
        default=64,
        description="random concentrations, per model, at which the grid is checked in float64",
    )


class GeodesicsParameters(Block):
    """Boundary value problems."""

    method: Literal["closed_form", "newton", "dopri5"] = Field(
        default="closed_form", description="method that solves for first velocities"
    )
    tolerance: Positive = Field(
        default=1e-06, description="largest endpoint residual of a solved geodesic (chart)"
    )
    patience: PositiveInt = Field(
        default=2,
        description="successive shots of newton or dopri5 within the tolerance that end them",
    )
    steps: PositiveInt = Field(default=100, description="in time, of every shot of newton")
    time_points: NonNegativeInt = Field(
        default=11,
        description="points of the stored trajectories (0: none are stored, otherwise at least 2)",
    )
    check_rows: PositiveInt = Field(
        default=64,
        description="random geodesics, per model, integrated again on the network in float64",
    )
    allow_unconverged: NonNegativeInt = Field(
        default=0, description="geodesics that may miss their target"
    )

    @model_validator(mode="after")
    def _two_ends(self) -> "GeodesicsParameters":
        if self.time_points == 1:
            raise ValueError("time_points must be 0 or at least 2")
        return self


class DecodersParameters(TrainingParameters):
    """Leave-one-out decoders; all parameters except the kind are of path decoders."""

    kind: Literal["blend", "posterior", "path"] = Field(
        default="blend",
        description="posterior over metrics, an average of closed forms; path, the published "
        "perceptrons on path features; or a blend of both, weighed by inner leave-one-out",
    )
    learning_rate: Positive = Field(
        default=0.01, description="at first; it falls to zero as half a cosine wave"
    )


class ValidateParameters(Block):
    """Scores."""

    bands: dict[str, Interval] = Field(
        default={"220-800": (220.0, 800.0), "450-800": (450.0, 800.0)},
        description="further wavelength bands to score, name: [low, high] (axis unit)",
    )


class CalibrateParameters(Block):
    """Calibration by which unknown spectra are estimated."""

    method: str = Field(
        default="auto",
        description="what estimates unknowns, such as pls; auto: the simplest of the best",
    )
    allow_offset: bool = Field(
        default=False, description="whether unknown spectra may be off by a constant; by geonode"
    )
    allow_scale: bool = Field(
        default=False,
        description="whether unknown spectra may be off by a factor near 1; by geonode",
    )
    level: Level = Field(default=0.9, description="probability of intervals and sets")
    precision: Annotated[float, Field(gt=0, lt=100)] | None = Field(
        default=None,
        description="largest standard error of a further working range, % of the concentration "
        "(null: 20 and 10 alone)",
    )


class BenchmarkParameters(Block):
    """Timing."""

    repeats: PositiveInt = Field(default=5, description="repetitions of every short timing")


PRESETS: dict[str, dict[str, Any]] = {
    "fast": {"metric.learning": "flat", "decoders.kind": "posterior", "inner.members": 0},
    "standard": {},
    "thorough": {
        "metric.members": 16,
        "decoders.members": 16,
        "inner.members": 4,
        "inner.levels": None,
    },
    "published": {
        "inner.members": 0,
        "metric.evidence_margin": None,
        "metric.epochs": 500,
        "metric.wavelengths": None,
        "metric.sources": None,
        "decoders.kind": "path",
        "decoders.epochs": 500,
        "decoders.wavelengths": None,
        "decoders.sources": None,
    },
}
"""Values by dotted key that replace defaults of the blocks `inner`, `metric` and `decoders`."""

MEANT = {
    "fast": ("decoders.kind",),
    "published": ("decoders.kind", "inner.members", "metric.wavelengths", "decoders.wavelengths"),
}
"""Values of a preset that make it what it is: others contradict it."""


class Parameters(Block):
    """All parameters of params.yaml."""

    preset: Literal["fast", "standard", "thorough", "published"] = Field(
        default="standard", description="a key of `PRESETS`"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        default="auto", description="where to compute; auto takes cuda, then mps, then cpu"
    )
    memory_mb: PositiveInt | None = Field(
        default=None,
        description="memory of a process for one batch of models or tile of geodesics (MB, 10^6 "
        "bytes; null: by the profile of the device)",
    )
    precision: PrecisionParameters = PrecisionParameters()
    engine: EngineParameters = EngineParameters()
    generate: GenerateParameters = GenerateParameters()
    spectra: SpectraParameters = SpectraParameters()
    inner: InnerParameters = InnerParameters()
    metric: MetricParameters = MetricParameters()
    christoffel: ChristoffelParameters = ChristoffelParameters()
    geodesics: GeodesicsParameters = GeodesicsParameters()
    decoders: DecodersParameters = DecodersParameters()
    validation: ValidateParameters = Field(default=ValidateParameters(), alias="validate")
    calibrate: CalibrateParameters = CalibrateParameters()
    benchmark: BenchmarkParameters = BenchmarkParameters()
