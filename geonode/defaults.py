"""Parameters of the package, for work without a parameter file."""

from pathlib import Path
from typing import Any

from geonode.config import Parameters
from geonode.parameters_file import read_parameters

DEFAULTS = Path(__file__).with_name("defaults.yaml")
"""Parameter file of the package: that of the repository, as it is when nobody has changed it."""


def default_parameters(overrides: dict[str, Any]) -> Parameters:
    """The parameters of the package, but for some values.

    Args:
        overrides: as of `read_parameters`; `preset` is one of them.

    Raises:
        ParameterError: a value is of the wrong type or out of range.
    """
    return read_parameters(DEFAULTS, overrides)
