"""Types that blocks of parameters are made of: numbers with a range, steps of preprocessing."""

from math import log10
from numbers import Real
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from geonode.errors import ParameterError

Text = Annotated[str, Field(min_length=1)]
PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Level = Annotated[float, Field(gt=0.5, lt=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def require_level(source: str, level: Any) -> None:
    """Refuse what is no `Level`.

    Raises:
        ParameterError: naming the source.
    """
    if not isinstance(level, Real) or not 0.5 < float(level) < 1:
        expected = "a number above 0.5 and below 1, such as 0.95"
        raise ParameterError(source, "level", level, expected)


def _ascending(interval: tuple[float, float]) -> tuple[float, float]:
    if interval[0] >= interval[1]:
        raise PydanticCustomError("interval", "[low, high] with low < high")
    return interval


Interval = Annotated[  # not strict: YAML has lists, no tuples
    tuple[Finite, Finite], Field(strict=False), AfterValidator(_ascending)
]
PositiveInterval = Annotated[
    tuple[Positive, Positive], Field(strict=False), AfterValidator(_ascending)
]

Format = Literal["float64", "float32", "float16"]
"""Format of stored numbers; they are computed in double precision."""


class Block(BaseModel):
    """Group of parameters; unknown keys are errors and values never change type silently."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


LARGEST_POWER = 12
"""Decimal logarithm of the largest power of a window of polynomials.

Up to it smoothed spectra are exact to 3e-5 of their size, beyond 1e14 they are wrong throughout."""


class NoChoice(Block):
    """A step without parameters."""


class SavgolParameters(Block):
    """A Savitzky-Golay filter."""

    window: Annotated[int, Field(ge=3)]
    """Wavelengths of a polynomial (odd)."""
    degree: NonNegativeInt
    """Of the polynomial."""
    derivative: Annotated[int, Field(ge=0, le=3)] = 0
    """Along the axis (0: smoothing)."""

    @model_validator(mode="after")
    def _consistent(self) -> "SavgolParameters":
        if self.window % 2 == 0 or not self.derivative <= self.degree < self.window:
            raise ValueError("window must be odd, and derivative <= degree < window")
        if self.degree * log10(self.window // 2) > LARGEST_POWER:
            raise ValueError(f"(window / 2)^degree must be at most 1e{LARGEST_POWER}")
        return self


class AslsParameters(Block):
    """A baseline by asymmetric least squares.

    Within these bounds, wider than those that Eilers and Boelens (2005) advise, baselines of 5,000
    wavelengths are exact to 1e-4 of the spectrum; rounding grows with smoothness over asymmetry.
    """

    smoothness: Annotated[float, Field(ge=1, le=1e9)] = 1e5
    """Of the baseline (lambda)."""
    asymmetry: Annotated[float, Field(ge=1e-4, lt=0.5)] = 0.01
    """Weight of what is above it (p)."""


class PreprocessStep(Block):
    """One step, by its name: `snv`, `{savgol: {window: 11, degree: 2}}` or `asls`.

    `absorbance` and `kubelka_munk` convert per cent of transmittance and of reflectance.
    """

    absorbance: NoChoice | None = None
    """From percent transmittance."""
    kubelka_munk: NoChoice | None = None
    """From percent reflectance."""
    snv: NoChoice | None = None
    """Standard normal variate."""
    savgol: SavgolParameters | None = None
    """Smoothing or derivatives."""
    asls: AslsParameters | None = None
    """Baseline."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {value: {}} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one(self) -> "PreprocessStep":
        if len(self.model_fields_set) != 1 or getattr(self, self.name) is None:
            raise ValueError(f"a step must be one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def name(self) -> str:
        """Name of the step."""
        return next(iter(self.model_fields_set), "snv")

    @property
    def said(self) -> str:
        """The step for people."""
        if self.savgol is not None and self.savgol.derivative:
            return f"derivative {self.savgol.derivative}"
        said = {"snv": "SNV", "savgol": "smoothed", "asls": "less baseline"}
        return (said | {"absorbance": "as A", "kubelka_munk": "as F(R)"})[self.name]
