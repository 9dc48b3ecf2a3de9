import json

import numpy as np
import pandas as pd
import pytest

from tests.commands.calling import call
from tests.estimation.trained import AXIS

LENGTH = np.sqrt(np.log(2) + 0.1)  # of a straight path over half of the chart in a flat metric


def test_a_geodesic_of_a_flat_metric_is_straight(trained):
    result = call("geodesic", 10, 40, "--wavelength", 520, "--root", trained, "--json", status=0)
    found = json.loads(result.stdout)
    (row,) = found["geodesics"]
    path = [row[f"t={time:g}"] for time in np.linspace(0, 1, 11).round(1)]
    np.testing.assert_allclose(path, np.linspace(10, 40, 11), rtol=1e-9)
    assert row["status"] == "converged"
    assert row["initial_velocity"] == pytest.approx(1)
    assert row["length"] == pytest.approx(LENGTH)
    assert found["statistics"]["length"]["median"] == pytest.approx(LENGTH)


def test_paths_at_all_wavelengths_are_written_and_drawn(trained, tmp_path):
    out, figure = tmp_path / "paths.csv", tmp_path / "paths.png"
    result = call("geodesic", 45, 0, "--root", trained, "--out", out, "--figure", figure, status=0)
    assert "length 1.336 to 1.336" in result.stdout  # 1.5 times LENGTH
    rows = pd.read_csv(out)
    assert rows["wavelength (nm)"].tolist() == AXIS.tolist()
    expected = [np.linspace(45, 0, 11)] * len(AXIS)
    np.testing.assert_allclose(rows.filter(like="t="), expected, rtol=1e-5, atol=1e-9)
    assert figure.read_bytes().startswith(b"\x89PNG")
