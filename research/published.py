"""The published method in full: how its seconds grow with its work, how far its scores spread.

`python -m research.published`, in the folder of the project, runs the stages of the preset
`published` for more and more members, levels and wavelengths, each in a folder of its own, and
writes published.json and, of seconds over work, published.png. What the file contains already is
not run again, so that a call cut short, or one on another device, adds to it; `--minutes` begins no
further run after them.

Members are trained apart: one run of many gives the scores of each alone, and of ensembles of
disjoint members.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import altair as alt
import numpy as np
import pandas as pd
import typer

from geonode.compute.device import resolve
from geonode.evaluation.evaluate import PUBLISHED, by_model
from geonode.geometry.solved import read_features
from geonode.learning.path_decoder import PathDecoders
from geonode.parameters_file import default_parameters, parse_yaml
from geonode.prediction.model import SpectralModel
from geonode.report.kit import Figure, level_colours, marks
from geonode.storage.document import read_json, write_json
from research.published_method import published_calls
from stages.paths import DATA, GEODESICS, METRICS, PARAMETERS, PIPELINE, RECORDS

DAYS = 18
"""Of the publication, for six levels, 601 wavelengths and one member."""

STAGES = [stage for stage in PIPELINE if stage != "calibrate"]  # which the publication lacks
SIZES = (1, 4, 16)  # members of the ensembles whose scores are compared

Numbers = Annotated[list[int], typer.Option(min=1, help="May be repeated.")]


def main(
    members: Numbers = [1, 4, 16, 64],  # noqa: B006
    levels: Numbers = [6, 12, 24],  # noqa: B006
    wavelengths: Numbers = [601, 2400],  # noqa: B006
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    method: Annotated[str, typer.Option(help="Method of the geodesics: closed_form, dopri5.")] = (
        "closed_form"
    ),
    minutes: Annotated[
        float, typer.Option(help="Minutes after which no further run begins.")
    ] = 9.0,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("published"),
) -> None:
    """Run every number of members, and one member of every number of levels and wavelengths."""
    out.mkdir(parents=True, exist_ok=True)
    file, began = out / "published.json", time.perf_counter()
    found: list[dict[str, Any]] = read_json(file)["runs"] if file.exists() else []
    wanted = [(count, levels[0], wavelengths[0]) for count in members]
    wanted += [(members[0], count, wavelengths[0]) for count in levels[1:]]
    wanted += [(members[0], levels[0], count) for count in wavelengths[1:]]
    given = default_parameters({"device": device})
    name = resolve(given.device, given.precision).name
    for shape in wanted:
        key: dict[str, Any] = {"device": name, "method": method}
        key |= dict(zip(("members", "levels", "wavelengths"), shape, strict=True))
        if any(key.items() <= row.items() for row in found):
            continue
        if time.perf_counter() - began > 60 * minutes:
            typer.echo(f"not begun: {shape}")
            continue
        found.append(key | _run(shape, device, method))
        write_json(file, {"runs": found})
    table = pd.json_normalize(found)
    _growth(table).save_png(out / "published.png")
    typer.echo(table[["device", "members", "levels", "wavelengths", "work", "seconds"]].to_string())


def _growth(runs: pd.DataFrame) -> Figure:
    """Seconds over work, of every device, beside those of the publication."""
    closed = runs[runs["method"] == "closed_form"][["device", "work", "seconds"]]
    devices, ends = [*closed["device"].unique()], np.array([1.0, closed["work"].max()])
    as_published = {"device": ["as published"] * 2, "work": ends, "seconds": DAYS * 86400 * ends}
    x, y = (
        alt.X("work", type="quantitative").title("work (as published: 1)").scale(type="log"),
        alt.Y("seconds", type="quantitative").title("seconds").scale(type="log"),
    )
    colour = level_colours("device", [*devices, "as published"], "device")
    layers = [
        marks("point", x, y, colour, table=closed, filled=True, size=70),
        marks("line", x, y, colour, table=as_published),
    ]
    chart = alt.layer(*layers).properties(width=520, height=300)
    return Figure("growth", "seconds over work", chart)


def _run(shape: tuple[int, int, int], device: str, method: str) -> dict[str, Any]:
    """Seconds, memory and scores of one run."""
    members, levels, wavelengths = shape
    content = parse_yaml(PARAMETERS.read_text(encoding="utf-8"))
    content |= {"preset": "published", "device": device}
    content["spectra"]["concentrations"] = None
    content["geodesics"]["method"] = method
    for block in ("metric", "decoders"):
        content[block]["members"] = members
    if levels != len(content["generate"]["concentrations"]):
        content["generate"]["concentrations"] = np.linspace(0, 60, levels).tolist()
    content["generate"]["wavelengths"]["step"] = 600 / (wavelengths - 1)
    paths = [str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / PARAMETERS).write_text(json.dumps(content))
        for stage in STAGES:
            command, out = [sys.executable, "-m", f"stages.{stage}"], subprocess.DEVNULL
            subprocess.run(command, cwd=folder, env=environment, check=True, stdout=out)
        records = {stage: read_json(folder / RECORDS / f"{stage}.json") for stage in STAGES}
        scores = read_json(folder / METRICS / "validate.json")
        solved = read_json(folder / METRICS / "geodesics.json")
        spread = _spread(folder, members)
    seconds = sum(record["seconds"] for record in records.values())
    calls = published_calls(levels * (levels - 1), wavelengths, levels * members)
    work = calls / published_calls()  # in units of the publication's
    peaks = {
        key: max(r[key] or 0 for r in records.values()) for key in ("peak_mb", "device_peak_mb")
    }
    return {
        "work": work,
        "seconds": seconds,
        "stages": {stage: record["seconds"] for stage, record in records.items()},
        **peaks,
        "ratio_to_published_days": DAYS * 86400 * work / seconds,
        **{score: scores[score] for score in ("pooled_r2", "q2", "rmse")},
        "geodesics": {key: solved[key] for key in ("geodesics", "unconverged", "evaluations")},
        "spread": spread,
    }


def _spread(folder: Path, members: int) -> dict[str, dict[str, list[float]]]:
    """Every score of disjoint ensembles of the members, by the size of an ensemble."""
    model = SpectralModel.read(folder / DATA)
    features = np.array(read_features(folder / GEODESICS, model.series, model.blend.training))
    paths, folds = model.blend.decoders["path"], len(model.learned.charts)
    assert isinstance(paths, PathDecoders)
    found: dict[str, dict[str, list[float]]] = {}
    for size in (size for size in SIZES if size <= members):
        of_size = found.setdefault(f"of_{size}", {"pooled_r2": [], "q2": []})
        for first in range(0, members - size + 1, size):
            models = list(range(first * folds, (first + size) * folds))
            network, scale = paths.network[models], paths.features[models]
            blend = replace(
                model.blend, decoders={"path": replace(paths, network=network, features=scale)}
            )
            part = replace(model, blend=blend, features=features[first : first + size])
            scores = by_model(part)[PUBLISHED].scores
            of_size["pooled_r2"].append(scores["pooled_r2"] or 0.0)
            of_size["q2"].append(scores["q2"] or 0.0)
    return found


if __name__ == "__main__":
    typer.run(main)
