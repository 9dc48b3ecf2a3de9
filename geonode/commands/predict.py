"""`geonode predict`: spectra at any concentration."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geonode.commands.common import AsJson, Root, aligned, echo_json
from geonode.commands.destination import require_destination
from geonode.errors import ParameterError
from geonode.progress import bar

if TYPE_CHECKING:
    import numpy as np

    from geonode.estimation.model import SpectralModel
    from geonode.estimation.predicting import Sink

SHOWN = 50
"""Rows of a table on the screen."""


def predict(
    concentration: Annotated[
        list[float] | None, typer.Option(metavar="NUMBER", help="Concentration; may be repeated.")
    ] = None,
    at_range: Annotated[
        list[str] | None,
        typer.Option(metavar="START:STOP:STEP", help="Evenly spaced ones, STOP included."),
    ] = None,
    extrapolate: Annotated[
        bool, typer.Option("--extrapolate", help="Allow what is out of the measured range.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="All spectra, .csv or .zarr.")
    ] = None,
    only_signal: Annotated[
        bool,
        typer.Option("--only-signal", help="Spectra without std and interval; geonode reads it."),
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The spectra drawn, .png.")
    ] = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Predict spectra at any concentration, with a standard deviation and a 90% interval.

    What was learned of all levels predicts; run the pipeline first. Without --out there is a line
    about every spectrum.
    """
    from geonode.estimation.model import SpectralModel  # noqa: PLC0415
    from geonode.estimation.predicting import blocks, meaning_of_std, requested  # noqa: PLC0415
    from geonode.estimation.predicting import summary as summarised  # noqa: PLC0415

    data = root / "data"
    require_destination("--out", out, ".csv", ".zarr", never=data)
    require_destination("--figure", figure, ".png", never=data)
    wanted = requested(concentration or [], at_range or [])
    model = SpectralModel.read(data)
    if not extrapolate:
        _require_inside(model, wanted)
    rows: list[dict[str, Any]] = []
    with bar("predicting", len(wanted)) as report, _sink(out, model, wanted, only_signal) as sink:
        for block in blocks(model, wanted, report):
            sink(block)
            rows += summarised(model, block)
    if figure is not None:
        _draw(figure, model, wanted)
    std = meaning_of_std(model)
    if as_json:
        about = {"measured_range": model.range, "std": std, "labels": model.series.labels}
        echo_json(about | {"out": out and str(out), "spectra": rows})
        return
    if out is None:
        typer.echo("\n".join(_table(model, rows)))
    else:
        typer.echo(f"{len(rows)} spectra at {len(model.series.axis)} wavelengths -> {out}")
    typer.echo(f"std: {std}")
    if beyond := sum(row["extrapolated"] for row in rows):
        typer.echo(f"extrapolated: {beyond} of {len(rows)}, out of {_range(model)}")


def _require_inside(model: "SpectralModel", wanted: "np.ndarray") -> None:
    outside = wanted[~model.is_inside(wanted)]
    if len(outside):
        expected = f"{_range(model)}, the measured range; --extrapolate predicts beyond it"
        raise ParameterError("options", "--concentration", float(outside[0]), expected)


def _sink(
    out: Path | None, model: "SpectralModel", wanted: "np.ndarray", only_signal: bool
) -> AbstractContextManager["Sink"]:
    from geonode.estimation.predicting import artifact_sink, table_sink  # noqa: PLC0415

    if out is None:
        return nullcontext(lambda _: None)
    if out.suffix.lower() == ".csv":
        return table_sink(out, model, only_signal)
    return artifact_sink(out, model, wanted, only_signal)


def _draw(figure: Path, model: "SpectralModel", wanted: "np.ndarray") -> None:
    import numpy as np  # noqa: PLC0415

    from geonode.estimation.predicting import PredictedBlock  # noqa: PLC0415
    from geonode.evaluation.estimation_figures import (  # noqa: PLC0415
        MOST_SPECTRA,
        predicted_figure,
    )
    from geonode.evaluation.figures import save_figure  # noqa: PLC0415

    chosen = np.unique(np.linspace(0, len(wanted) - 1, MOST_SPECTRA).round().astype(int))
    block = PredictedBlock.of(model, wanted[chosen])
    save_figure(predicted_figure(model.series, block), figure)


def _table(model: "SpectralModel", rows: list[dict[str, Any]]) -> Iterator[str]:
    series = model.series
    unit = series.labels["concentration_unit"]
    header = (f"concentration ({unit})", f"{series.signal_label} at its peak", series.axis_label)
    lines = [(*header, "mean std", "")]
    for row in rows[:SHOWN]:
        numbers = [row["concentration"], row["peak"], row["peak_at"], row["mean_std"]]
        flag = "extrapolated" if row["extrapolated"] else ""
        lines.append((*(f"{number:.6g}" for number in numbers), flag))  # type: ignore[arg-type]
    yield from aligned(lines)
    if len(rows) > SHOWN:
        yield f"and {len(rows) - SHOWN} more; --out writes all of them"


def _range(model: "SpectralModel") -> str:
    low, high = model.range
    return f"{low:g} to {high:g} {model.series.labels['concentration_unit']}"
