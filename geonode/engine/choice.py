"""Choice of the engine by the parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from geonode.config import EngineParameters
from geonode.engine.local import LOCAL, Engine
from geonode.errors import EngineError


@contextmanager
def open_engine(parameters: EngineParameters, scratch: Path) -> Iterator[Engine]:
    """Context with the engine of the block `engine`.

    Args:
        parameters: the block `engine` of the parameters.
        scratch: path for `scratch_folder`, for files shared by several processes.

    Raises:
        EngineError: Dask is not installed, or the cluster does not answer.
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
