"""Choice of an engine by the parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from geonode.compute.engine import LOCAL, Engine
from geonode.compute.processes import Processes
from geonode.config import EngineParameters
from geonode.errors import EngineError
from geonode.machine import usable_cores
from geonode.storage.atomic import scratch_folder


@contextmanager
def open_engine(
    parameters: EngineParameters, scratch: Path, *, processes: bool = False
) -> Iterator[Engine]:
    """Context with the engine of the block `engine`.

    Args:
        parameters: the block `engine` of the parameters.
        scratch: path for `scratch_folder`, for files that several processes share.
        processes: whether a local engine has processes instead of threads. Training on a CPU needs
            them, as only one thread at a time runs Python.

    Raises:
        EngineError: Dask is not installed, or the cluster does not answer.
        ArtifactError: the folder cannot be made, or another process uses it.
    """
    if parameters.kind == "dask":
        if find_spec("distributed") is None:
            raise EngineError(
                "engine.kind dask: found no package distributed; "
                'pip install "geonode-spectra[cluster]"'
            )
        from geonode.compute.cluster import open_cluster  # noqa: PLC0415 - it needs Dask

        with open_cluster(parameters.scheduler, parameters.workers, scratch) as engine:
            yield engine
    elif processes and usable_cores() > 1:
        with scratch_folder(scratch) as folder:
            yield Processes(folder)
    else:
        yield LOCAL
