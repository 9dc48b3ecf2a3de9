import csv
import json

import numpy as np
import pytest

from tests.commands.calling import call
from tests.estimation.trained import AXIS
from tests.stages.conftest import assert_refused

LENGTH = np.sqrt(np.log(2) + 0.1)  # of a straight path over half of the chart in a flat metric


def test_a_geodesic_of_a_flat_metric_is_straight(trained):
    result = call("geodesic", 10, 40, "--wavelength", 520, "--root", trained, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    (row,) = found["geodesics"]
    np.testing.assert_allclose(row["path"], np.linspace(10, 40, 11), rtol=1e-9)
    assert (row["wavelength"], row["status"]) == (520, "converged")
    assert row["initial_velocity"] == pytest.approx(1)
    assert row["length"] == pytest.approx(LENGTH)
    assert found["statistics"]["missed"] == 0
    assert found["statistics"]["length"]["median"] == pytest.approx(LENGTH)


def test_paths_at_all_wavelengths_are_written_and_drawn(trained, tmp_path):
    out, figure = tmp_path / "paths.csv", tmp_path / "paths.png"
    result = call("geodesic", 45, 0, "--root", trained, "--out", out, "--figure", figure)
    assert result.exit_code == 0, result.output
    assert "and 11 more; --out writes all of them" in result.stdout
    assert "length 1.336 to 1.336" in result.stdout  # 1.5 times LENGTH
    rows = list(csv.DictReader(out.open(encoding="utf-8")))
    assert len(rows) == len(AXIS) * 11
    np.testing.assert_allclose(
        [float(row["concentration_ppb"]) for row in rows], [*np.linspace(45, 0, 11)] * len(AXIS)
    )
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert_refused(call("geodesic", 45, 0, "--root", trained, "--out", out), "--overwrite")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ((10, 70), ("TO", "70", "0 to 60 ppb, the range of the chart")),
        (("--", -1, 30), ("FROM", "-1", "0 to 60 ppb")),
        ((10, 10), ("TO", "10", "another concentration than FROM")),
        ((10, 20, "--wavelength", 399), ("--wavelength", "399", "400 to 700 nm, the range of the")),
        (("nan", 20), ("FROM", "nan", "0 to 60 ppb")),
        ((10, 20, "--out", "paths.txt"), ("--out", "paths.txt", ".csv")),
    ],
)
def test_what_is_off_the_chart_or_the_axis_is_refused(trained, words, parts):
    assert_refused(call("geodesic", "--root", trained, *words), *parts)
