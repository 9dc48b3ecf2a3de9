"""The engine that parameters ask for."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from geonode.config import EngineParameters
from geonode.engine.local import LOCAL, Engine
from geonode.errors import EngineError


@contextmanager
def open_engine(parameters: EngineParameters, scratch: Path) -> Iterator[Engine]:
    """Work by the engine of the block `engine` inside the body.

    Args:
        parameters: the block.
        scratch: where a folder for what several processes share is made beside and removed.

    Raises:
        EngineError: Dask is not installed, or the cluster is not there.
    """
    if parameters.kind == "local":
        yield LOCAL
        return
    if find_spec("distributed") is None:
        raise EngineError(
            'engine.kind dask: found no package distributed; pip install "geonode-spectra[cluster]"'
        )
    from geonode.engine.cluster import open_cluster  # noqa: PLC0415 - it needs Dask

    with open_cluster(parameters.scheduler, parameters.workers, scratch) as engine:
        yield engine
