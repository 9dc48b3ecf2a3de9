"""The measured series that come with the project."""

from pathlib import Path

import numpy as np
import pytest

from geonode.config import SpectraParameters
from geonode.parameters_file import read_parameters
from geonode.spectra.series import read_series_csv

ROOT = Path(__file__).parents[2]


def example(name: str) -> SpectraParameters:
    common = read_parameters(ROOT / "params.yaml").spectra.model_dump()
    source = str(ROOT / f"data/examples/{name}.csv")
    return SpectraParameters.model_validate(common | {"source": source, "concentration_unit": "uM"})


@pytest.mark.parametrize(
    ("name", "levels", "peak"),
    [
        ("acetophenone", [0, 50, 100, 200, 300, 400], 242),
        ("methoxychalcone", [0, 50, 100, 200, 300], 344),
    ],
)
def test_an_example_is_read_as_its_source_says(name, levels, peak):
    """Levels of the source's table of concentrations; absorption maximum of the pure substance."""
    series = read_series_csv(example(name))
    assert list(series.concentrations) == levels
    assert (series.axis[0], series.axis[-1]) == (220, 600)
    strongest = series.signal[-1]
    assert abs(series.axis[np.argmax(strongest)] - peak) <= 1
