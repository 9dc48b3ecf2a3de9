"""Packages that only some formats need."""

from importlib import import_module
from types import ModuleType

from geonode.errors import SpectraError


def require(package: str, extra: str) -> ModuleType:
    """A package that is installed on demand.

    Args:
        package: its name.
        extra: extra of this project that brings it.

    Raises:
        SpectraError: it is absent; the message says how to install it.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise SpectraError(
            f"found no package {package}, which this format needs; "
            f'pip install "geonode-spectra[{extra}]"'
        ) from error
