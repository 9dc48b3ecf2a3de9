"""Maps of images, for `geonode estimate`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from geonode.commands.common import note
from geonode.config import EngineParameters
from geonode.errors import ParameterError
from geonode.parameter_types import Format
from geonode.progress import bar

if TYPE_CHECKING:
    from geonode.estimation.curve import Curve
    from geonode.spectra.series import Series

Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="For an image: processes of Dask.",
        show_default="this process, with a thread per core",
    ),
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="tcp://HOST:PORT", help="For an image: a cluster of Dask.")
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="For an image: pixels of a tile.",
        show_default="a chunk, or 16 MB of spectra; fewer if the tiles together take more than a "
        "quarter of the free memory",
    ),
]


class ImageOptions(NamedTuple):
    """Options for maps of images; None: not given.

    Attributes:
        workers: processes of a cluster on this machine.
        scheduler: address of a running cluster.
        batch_size: largest number of pixels of a tile.
        cache_dtype: format of the numbers.
    """

    workers: int | None
    scheduler: str | None
    batch_size: int | None
    cache_dtype: Format | None

    def require_none(self) -> None:
        """Refuse these options for a table.

        Raises:
            ParameterError: one is given.
        """
        for name, value in self._asdict().items():
            if value is not None:
                option = "--" + name.replace("_", "-")
                raise ParameterError("options", option, value, "an image, or no such option")

    @property
    def engine(self) -> EngineParameters:
        """Parameters of the engine.

        Raises:
            ParameterError: both --workers and --scheduler are given.
        """
        if self.workers is not None and self.scheduler is not None:
            expected = "one of --workers and --scheduler; a cluster has its workers"
            raise ParameterError("options", "--workers", self.workers, expected)
        local = self.workers is None and self.scheduler is None
        return EngineParameters(
            kind="local" if local else "dask", scheduler=self.scheduler, workers=self.workers or 1
        )


def write_maps(
    file: Path, out: Path, curve: "Curve", series: "Series", options: ImageOptions
) -> None:
    """Write the maps of an image, tile by tile."""
    from geonode.engine.local import open_engine  # noqa: PLC0415
    from geonode.estimation import maps  # noqa: PLC0415
    from geonode.estimation.image import Image, pixels_at_once  # noqa: PLC0415

    image = Image.open(file)
    (rows, columns), cores = image.shape, os.cpu_count() or 1
    pixels = options.batch_size or pixels_at_once(image, options.workers or cores)
    number: Format = options.cache_dtype or "float64"
    shared = out.with_name(f"{out.name}.shared")
    with (
        open_engine(options.engine, shared) as engine,
        bar(f"mapping {rows} x {columns} pixels", rows * columns) as report,
    ):
        maps.write_maps(out, curve, series, image, pixels, number, report, engine, cores)
    note(f"maps of {rows} x {columns} pixels -> {out}")
