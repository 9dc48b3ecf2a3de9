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

    training: Literal["float32", "float64", "tf32", "bfloat16"] = "float32"
    """Format in which metrics and decoders are trained; the last two round the factors of products
    of layers, and the rest is float32 (tf32: cuda alone)."""
    geometry: Literal["auto", "float32", "float64"] = "auto"
    """Format in which grids and geodesics are computed; auto is float64 where the device has it and
    float32 on mps."""


class AxisParameters(Block):
    """Uniform axis."""

    start: Finite = 200.0
    """First wavelength (nm)."""
    stop: Finite = 800.0
    """Last wavelength, included (nm)."""
    step: Positive = 1.0
    """Spacing (nm)."""

    @model_validator(mode="after")
    def _ascending(self) -> "AxisParameters":
        if self.stop <= self.start:
            raise ValueError("stop must be greater than start")
        return self


class NoiseParameters(Block):
    """Instrument noise of the synthetic spectra."""

    detector: NonNegative = 0.001
    """White noise of every reading (absorbance)."""
    scatter: NonNegative = 0.005
    """Multiplicative error of a spectrum (relative)."""
    offset: NonNegative = 0.001
    """Baseline offset of a spectrum (absorbance)."""
    slope: NonNegative = 0.001
    """Baseline tilt, centre to edge (absorbance)."""


class EngineParameters(Block):
    """Processes that compute, which do not affect the bytes of the results."""

    kind: Literal["local", "dask"] = "local"
    """Local, this machine; or dask, worker processes with one thread each."""
    scheduler: Text | None = None
    """Address of a running Dask cluster, such as tcp://host:8786 (null: one on this machine, for as
    long as the stage runs)."""
    workers: PositiveInt = 2
    """Processes of a cluster on this machine."""

    @model_validator(mode="after")
    def _consistent(self) -> "EngineParameters":
        if self.kind == "local" and self.scheduler is not None:
            raise ValueError("scheduler must be null unless kind is dask")
        return self


class GenerateParameters(Block):
    """Synthetic spectra."""

    seed: Seed = 0
    """Seed of the noise."""
    concentrations: list[NonNegative] = Field(
        default=[0.0, 10.0, 20.0, 30.0, 40.0, 60.0], min_length=4, max_length=50
    )
    """Measured levels (ppb)."""
    replicates: PositiveInt = 3
    """Scans of every level."""
    wavelengths: AxisParameters = AxisParameters()
    noise: NoiseParameters = NoiseParameters()


class SpectraParameters(Block):
    """Measured table and its chart."""

    source: Text = "data/synthetic.csv"
    """File of spectra (text, Excel, JCAMP-DX, SPC, Zarr or NetCDF), or a folder of files with one
    spectrum each."""
    sheet: Text | None = None
    """Sheet of a workbook (null: the one that is not empty)."""
    concentrations: Text | None = None
    """Second table of names and concentrations (null: names are concentrations)."""
    replicates: Literal["ask", "marks", "levels"] = "ask"
    """Reading of a column 20.1 beside 20: an error that asks, a further scan of 20, or a level of
    its own; with marks, a second column 20 is a further scan too."""
    target: Text | None = None
    """Amount to take where a table gives several (null: the only one)."""
    quantity: Text = "absorbance"
    """Quantity measured, for labels."""
    unit: Text = "1"
    """Unit of the spectra, for labels (1: dimensionless)."""
    concentration_unit: Text | None = "ppb"
    """Unit of the levels, for labels (null: that of the file, or none)."""
    chart: Literal["linear", "log", "asinh"] = "linear"
    """Concentration chart: c, ln c, or asinh(c / kappa), each scaled to [-1, 1]."""
    kappa: Positive | None = None
    """Kappa of the asinh chart (concentration unit)."""
    window: Interval | None = None
    """Part of the axis to use [low, high] (axis unit)."""
    missing: Literal["refuse", "mask"] = "refuse"
    """An empty or NaN cell is an error, or its whole wavelength is left out, as are those at which
    a detector was stuck."""
    preprocess: list[PreprocessStep] = Field(default=[])
    """Steps in this order: absorbance, kubelka_munk, snv, savgol, asls; each spectrum by itself."""

    @model_validator(mode="after")
    def _consistent(self) -> "SpectraParameters":
        if (self.chart == "asinh") != (self.kappa is not None):
            raise ValueError("kappa must be given for the asinh chart, and for no other")
        return self


class TrainingParameters(Block):
    """Parameters common to the training of metrics and of decoders."""

    seed: Seed = 0
    """Seed of the initial weights."""
    members: PositiveInt = 1
    """Independent models of every fold (ensemble)."""
    epochs: PositiveInt = 300
    """Full-batch steps of Adam."""
    wavelengths: Annotated[int, Field(ge=2)] | None = 16
    """Evenly spaced wavelengths to train on (all, if the axis has fewer; null: all, and decoders
    are read at each of them, without interpolation)."""
    sources: PositiveInt | None = 3
    """Levels from which geodesics to every level are trained on (null: all)."""
    gradient_clip: Positive = 1.0
    """Largest norm of the gradient of one model."""
    checkpoint_every: NonNegativeInt = 0
    """Epochs from one checkpoint of the training to the next (0: none)."""


class MetricParameters(TrainingParameters):
    """Learning of the metric."""

    learning: Literal["flat", "end_to_end", "shared"] = "end_to_end"
    """Straight geodesics on the given chart; a network for every fold, trained together with a
    decoder on a chart chosen by evidence; or one for all folds, which leaks."""
    evidence_margin: NonNegative | None = 1.0
    """Log likelihood, per wavelength, by which a chart must beat the given one (null: none
    does)."""
    learning_rate: Positive = 0.005
    """Largest learning rate of the metric network."""
    decoder_learning_rate: Positive = 0.01
    """Largest learning rate of the decoder trained along with it."""
    quadrature_nodes: Annotated[int, Field(ge=2, le=64)] = 3
    """Gauss-Legendre nodes between neighbouring concentrations."""
    smoothness_weight: NonNegative = 0.0001
    """Weight in the loss of the mean squared Christoffel symbol."""
    bounds_weight: NonNegative = 0.1
    """Weight in the loss of the excess of ln g over the bounds."""
    bounds: PositiveInterval = (0.2, 5.0)
    """Range that g may use freely [low, high]."""
    length_weight: NonNegative = 0.0001
    """Weight in the loss of the mean squared geodesic length."""


class InnerParameters(Block):
    """Leave-one-out inside every fold, for the weights of decoders."""

    members: NonNegativeInt = 1
    """Models of every inner fold; 0: no inner folds, and no blend."""
    levels: Annotated[int, Field(ge=2)] | None = 2
    """Largest number of levels left out in turn inside every fold (null: all)."""


class ChristoffelParameters(Block):
    """Grid of Christoffel symbols."""

    resolution: Annotated[int, Field(ge=4, le=10**6)] = 2000
    """Evenly spaced concentration nodes."""
    tolerance: Annotated[float, Field(ge=1e-7, allow_inf_nan=False)] = 0.0001
    """Largest error of ln sqrt(g) and of the Christoffel symbol between nodes, which are stored in
    float32; a resolution that misses it is an error."""


class GeodesicsParameters(Block):
    """Boundary value problems."""

    method: Literal["closed_form", "newton", "dopri5"] = "closed_form"
    """Method that solves for first velocities."""
    tolerance: Annotated[float, Field(ge=1e-9, allow_inf_nan=False)] = 1e-06
    """Largest endpoint residual of a solved geodesic (chart); below some 1e-7 the rounding of the
    grids decides."""
    steps: PositiveInt = 100
    """Steps in time of every shot of newton."""
    time_points: NonNegativeInt = 11
    """Points of the stored trajectories (0: none are stored, otherwise at least 2)."""
    allow_unconverged: NonNegativeInt = 0
    """Geodesics that may miss their target."""

    @model_validator(mode="after")
    def _two_ends(self) -> "GeodesicsParameters":
        if self.time_points == 1:
            raise ValueError("time_points must be 0 or at least 2")
        return self


class DecodersParameters(TrainingParameters):
    """Leave-one-out decoders; all parameters except the kind are of path decoders."""

    kind: Literal["blend", "posterior", "path"] = "blend"
    """Posterior over metrics, an average of closed forms; path, the published perceptrons on path
    features; or a blend of both, weighed by inner leave-one-out."""
    learning_rate: Positive = 0.01
    """Learning rate at first; it falls to zero as half a cosine wave."""


class CalibrateParameters(Block):
    """Calibration by which unknown spectra are estimated."""

    method: str = "auto"
    """Method that estimates unknowns, such as pls; auto: the combination of all."""
    allow_offset: bool = False
    """Unknown spectra may be off by a constant; geonode estimates then."""
    allow_scale: bool = False
    """Unknown spectra may be off by a factor near 1; geonode estimates then."""
    level: Level = 0.9
    """Probability of intervals and sets."""
    precision: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Largest standard error of a further working range, % of the concentration (null: 20 and 10
    alone)."""


class BenchmarkParameters(Block):
    """Timing."""

    repeats: PositiveInt = 5
    """Repetitions of every short timing."""


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

    preset: Literal["fast", "standard", "thorough", "published"] = "standard"
    """Set of defaults: fast (no networks), standard, thorough (16 members), or published."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device to compute on; auto takes cuda, then mps, then cpu."""
    memory_mb: PositiveInt | None = None
    """Memory of a process for one batch of models or tile of geodesics (MB, 10^6 bytes; null: by
    the profile of the device)."""
    precision: PrecisionParameters = PrecisionParameters()
    engine: EngineParameters = EngineParameters()
    generate: GenerateParameters = GenerateParameters()
    spectra: SpectraParameters = SpectraParameters()
    inner: InnerParameters = InnerParameters()
    metric: MetricParameters = MetricParameters()
    christoffel: ChristoffelParameters = ChristoffelParameters()
    geodesics: GeodesicsParameters = GeodesicsParameters()
    decoders: DecodersParameters = DecodersParameters()
    calibrate: CalibrateParameters = CalibrateParameters()
    benchmark: BenchmarkParameters = BenchmarkParameters()
