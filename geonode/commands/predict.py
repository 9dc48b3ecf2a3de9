"""Command `geonode predict`: spectra at any concentration."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geonode.commands.common import (
    MOST_SHOWN,
    AsJson,
    CacheDtype,
    Context,
    Overwrite,
    Root,
    echo_json,
    refuse_given,
    require_destination,
)
from geonode.commands.job import block_of
from geonode.commands.spectra_file import Level
from geonode.errors import ParameterError
from geonode.progress import bar
from geonode.terminal import tell

if TYPE_CHECKING:
    from geonode.prediction.predicting import Sink
    from geonode.spectra.series import Series

Wanted = Annotated[
    list[float] | None, typer.Option(metavar="NUMBER", help="Concentration; may be repeated.")
]
Ranges = Annotated[
    list[str] | None,
    typer.Option(metavar="START:STOP:STEP", help="Evenly spaced, STOP included."),
]
Extrapolate = Annotated[
    bool, typer.Option("--extrapolate", help="Allow concentrations out of the measured range.")
]
SpectraOut = Annotated[
    Path | None, typer.Option(metavar="FILE", help="All spectra, .csv or .zarr.")
]
OnlySignal = Annotated[
    bool, typer.Option("--only-signal", help="Spectra without std and interval; geonode reads it.")
]
FigureOut = Annotated[Path | None, typer.Option(metavar="FILE", help="The spectra drawn, .png.")]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Spectra computed at once.",
        show_default="256, fewer if they take more than 1 GB",
    ),
]


def predict(
    context: Context,
    concentration: Wanted = None,
    at_range: Ranges = None,
    extrapolate: Extrapolate = False,
    out: SpectraOut = None,
    only_signal: OnlySignal = False,
    figure: FigureOut = None,
    overwrite: Overwrite = False,
    batch_size: BatchSize = None,
    cache_dtype: CacheDtype = None,
    level: Level = 0.9,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Predict spectra at any concentration, with a standard deviation and an interval.

    The prediction is by the model of all levels; run the pipeline first. Without --out, one line
    per spectrum is printed.
    """
    from geonode.prediction import predicting  # noqa: PLC0415
    from geonode.prediction.model import SpectralModel  # noqa: PLC0415

    data = root / "data"
    require = partial(require_destination, never=(data,), overwrite=overwrite)
    require("--out", out, ".csv", ".zarr")
    require("--figure", figure, ".png")
    is_table = out is not None and out.suffix.lower() == ".csv"
    if cache_dtype is not None and (out is None or is_table):
        raise ParameterError("options", "--cache-dtype", cache_dtype, "an --out that is a .zarr")
    level = block_of("calibrate", level=level).calibrate.level
    wanted = predicting.requested(concentration or [], at_range or [])
    model = SpectralModel.read(data)
    if not model.blend.has_intervals or (figure is None and (out is None or only_signal)):
        refuse_given(context, ["level"], "a model, and --out or --figure, with intervals")
    low, high = model.range
    measured = f"{low:g} to {high:g} {model.series.labels['concentration_unit']}"
    outside = wanted[~model.is_inside(wanted)]
    if len(outside) and not extrapolate:
        expected = f"{measured}, the measured range; --extrapolate predicts beyond it"
        raise ParameterError("options", "--concentration", float(outside[0]), expected)
    opened: AbstractContextManager[Sink] = nullcontext(lambda _: None)
    if out is not None:
        number = cache_dtype or "float64"
        how = only_signal, number, level
        opened = predicting.PredictedFile(out, model, wanted, *how).opened()
    rows: list[dict[str, Any]] = []
    with bar("predicting", len(wanted)) as report, opened as sink:
        for block in predicting.blocks(model, wanted, batch_size, report, level):
            sink(block)
            rows += predicting.summary(model, block)
    if figure is not None:
        from geonode.report.pictures import predicted_spectra  # noqa: PLC0415

        predicted_spectra(model, wanted, level).save_png(figure)
    said, labels = predicting.meaning_of_std(model), model.series.labels
    weight = model.blend.weights_of_paths[-1]
    if as_json:
        about = {"measured_range": model.range, "std": said, "labels": labels}
        echo_json({**about, "weight_of_paths": weight, "out": out and str(out), "spectra": rows})
        return
    told = [f"std: {said}"]
    if weight:
        told.append(f"weight of the paths, which geodesics decide: {weight:.1%}")
    if beyond := sum(row["extrapolated"] for row in rows):
        told.append(f"extrapolated: {beyond} of {len(rows)}, out of {measured}")
    written = [f"{len(rows)} spectra at {len(model.series.axis)} wavelengths -> {out}"]
    tell("\n".join([*(written if out else _summaries(model.series, rows)), *told]))


def _summaries(series: "Series", rows: list[dict[str, Any]]) -> list[str]:
    """One line a predicted spectrum."""
    from geonode.storage.table import Column, Table  # noqa: PLC0415

    units = {"concentration": series.labels["concentration_unit"]}
    names = {
        "concentration": "concentration",
        "peak": f"{series.signal_label} at its peak",
        "peak_at": series.axis_label,
        "mean_std": "mean std",
    }
    columns = [
        Column(name, [row[key] for row in rows], units.get(key, "1"), exponent=True)
        for key, name in names.items()
    ]
    columns.append(Column("", ["extrapolated" * row["extrapolated"] for row in rows]))
    table = Table("predicted", "Predicted spectra", columns)
    return table.lines(MOST_SHOWN, "--out writes all of them", 6)
