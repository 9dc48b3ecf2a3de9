"""The pipeline by other presets, on small data: what is trained, solved and stored."""

import json

import pytest
import xarray

from geonode.geometry.learned import LearnedMetrics
from stages.paths import METRIC, PIPELINE

LEVELS, PAIRS, WAVELENGTHS, TRAINED_AT = 5, 20, 31, 8


@pytest.fixture
def pipeline(run, project):
    """Run the stages by a preset with few epochs, at all wavelengths if that is what it means."""

    def by(preset):
        text = (project / "params.yaml").read_text(encoding="utf-8")
        text = text.replace("preset: standard", f"preset: {preset}")
        text = text.replace("[0, 10, 20, 30, 40, 60]", "[0, 10, 20, 30, 40]")
        if preset == "published":
            text = text.replace(f"wavelengths: {TRAINED_AT}", "wavelengths: null")
        (project / "params.yaml").write_text(text, encoding="utf-8")
        for name in PIPELINE:
            result = run(name)
            assert result.exit_code == 0, result.output
        return {
            name: json.loads((project / f"metrics/{name}.json").read_text(encoding="utf-8"))
            for name in ("christoffel", "geodesics", "decoders", "validate")
        }

    return by


def stored(name):
    with xarray.open_zarr(f"data/{name}.zarr", consolidated=False) as dataset:
        return {key: array.shape for key, array in dataset.data_vars.items()}


@pytest.mark.slow
def test_the_published_method_is_nothing_else(pipeline):
    found = pipeline("published")
    assert found["decoders"]["kind"] == "path"
    assert found["validate"]["published_method"]["rmse"] == found["validate"]["rmse"]
    learned = LearnedMetrics.read(METRIC)
    assert learned.inner is None
    assert {chart.kappa for chart in learned.charts} == {float("inf")}
    assert found["geodesics"]["geodesics"] == (LEVELS + 1) * PAIRS * WAVELENGTHS
    assert stored("geodesics")["features"] == (1, LEVELS + 1, PAIRS, WAVELENGTHS, 5)


@pytest.mark.slow
def test_what_no_decoder_reads_is_neither_solved_nor_stored(pipeline):
    found = pipeline("fast")
    assert found["christoffel"]["models"] == 1
    assert found["geodesics"]["geodesics"] == PAIRS * WAVELENGTHS
    assert {*stored("geodesics")} == {"v0", "residual", "status", "trajectory"}
    assert stored("christoffel")["ln_sqrt_g"][:2] == (1, 1)
