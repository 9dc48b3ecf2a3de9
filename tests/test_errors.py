import pickle
from pathlib import Path

import pytest

from geonode import errors
from geonode.errors import (
    CorruptArtifactError,
    GeonodeError,
    MissingArtifactError,
    ParameterError,
)

PLAIN = [
    kind("what was found")
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, GeonodeError) and "__init__" not in vars(kind)
]
OTHERS = [
    ParameterError("params.yaml", "epochs", -1, "a number above 0"),
    MissingArtifactError(Path("data/spectra.zarr")),
    CorruptArtifactError(Path("data/spectra.zarr"), "is cut", "signal", "0/0"),
]


@pytest.mark.parametrize("error", [*PLAIN, *OTHERS], ids=lambda error: type(error).__name__)
def test_an_error_of_another_process_arrives_as_it_was_raised(error):
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)
    assert len(PLAIN) >= 7
