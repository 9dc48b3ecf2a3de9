"""A verdict that travels: chance, what nothing can be used for, and what is reported of it."""

import json
import warnings
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from geonode.calibration.estimator import ConcentrationRegressor
from geonode.calibration.limits import precision_limit
from geonode.calibration.precision import PrecisionProfile
from geonode.calibration.results import brief_unknowns, reported, result_tables
from geonode.estimation.estimates import Estimate
from geonode.report.calibration_page import calibration_page
from geonode.report.calibration_tables import tables
from geonode.spectra.table import Spectra
from tests.calibration import beer
from tests.commands.calling import call, records, write

NOISE = np.random.default_rng(6).normal(size=(9, len(beer.AXIS)))


def test_noise_is_told_by_every_command_and_python(tmp_path):
    levels = [f"{level} ppb" for level in range(8)]
    known = write(tmp_path / "noise.csv", dict(zip(levels, NOISE, strict=False)))
    unknown = write(tmp_path / "unknown.csv", {"a": NOISE[8]})
    out = tmp_path / "out"
    done = call("calibrate", known, "--unknown", unknown, "--out", out, status=1)
    assert "error: None of the methods can be used" in done.stderr
    assert "This could be chance" in done.stderr
    by = ("--calibration", out / "calibration.safetensors", "--json")
    for words, status in (((), 1), (("--accept",), 0)):
        done = call("estimate", unknown, *by, *words)
        assert done.exit_code == status, done.output
        assert "This could be chance" in done.stderr
    found = json.loads(done.stdout)
    recorded = {row["what"]: row["value"] for row in records(out / "record.csv")}
    assert all("None of the methods" in one["verdict"] for one in (found, recorded))
    assert not found["is_sound"]
    assert "no method can be used" in found["unknowns"][0]["remark"]
    with pytest.warns(UserWarning, match=r"None of the methods .* This could be chance"):
        ConcentrationRegressor().fit(NOISE[:8], np.arange(8.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clean = np.linspace(0, 10, 8)
        ConcentrationRegressor(method="pls").fit(beer.spectra_at(clean) + 1e-4 * NOISE[:8], clean)


def test_more_levels_than_geonode_takes_are_calibrated_without_it(tmp_path):
    levels, random = np.linspace(1, 10, 52), np.random.default_rng(2)
    spectra = beer.spectra_at(levels) + 1e-3 * random.normal(size=(52, len(beer.AXIS)))
    names = [f"{level:.3f} ppb" for level in levels]
    known = write(tmp_path / "known.csv", dict(zip(names, spectra, strict=True)))
    unknown = write(tmp_path / "unknown.csv", {"a": beer.spectra_at([5.0])[0]})
    out = tmp_path / "out"
    call("calibrate", known, "--unknown", unknown, "--out", out, status=0)
    (row,) = records(out / "unknowns.csv")
    assert float(row["low90 (ppb)"]) < 5 < float(row["high90 (ppb)"])
    assert not any("geonode" in title for title in row)
    page = (out / "index.html").read_text(encoding="utf-8")
    assert 'id="precision"' in page
    assert 'id="curve"' not in page


def test_unknowns_beside_the_standards_are_estimated(tmp_path):
    levels = [1, 2, 4, 6, 8, 10, 5.0]
    spectra = beer.spectra_at(levels) + 1e-4 * NOISE[:7]
    names = [*(f"{level:g} ppb" for level in levels[:-1]), "s6"]
    file = write(tmp_path / "day.csv", dict(zip(names, spectra, strict=True)))
    call("calibrate", file, "--method", "pls", "--out", tmp_path / "out", status=0)
    (row,) = records(tmp_path / "out/unknowns.csv")
    assert (row["file"], row["spectrum"]) == ("day.csv", "s6")
    assert float(row["estimated (ppb)"]) == pytest.approx(5, abs=0.05)


# what is reported


@pytest.mark.parametrize(
    ("amount", "error", "expected"),
    [
        (12.3456, 0.0996, (12.35, 0.1, "12.35 ± 0.10")),
        (0.000123456, 0.0000234, (0.000123, 0.000023, "0.000123 ± 0.000023")),
        (98765.4, 1234, (98800, 1200, "98800 ± 1200")),
        (3.14159, inf, (3.14159, None, "3.142")),
    ],
)
def test_numbers_are_rounded_by_their_standard_error(amount, error, expected):
    assert reported(amount, error) == expected


def made(name, amount, ends, **more):
    return Estimate(name, [amount], [[ends]], standard_errors=[0.1], **{"fits": True} | more)


def test_what_is_not_determined_or_means_nothing_is_no_number(calibration):
    found = [
        made("a", 3.123, (1.0, 8.0), determined=[False]),
        made("b", 3.123, (3.0, 3.2), determined=[True]),
        made("c", 3.123, (3.0, 3.2), determined=[True], fits=False),
    ]
    file = replace(calibration, unknowns=[("f.csv", found)])
    texts = [row["estimate (ppb)"] for row in brief_unknowns(file).records()]
    assert texts == ["not determined (1 to 8)", "3.12 ± 0.10 (3 to 3.2)", "-"]
    unknown = result_tables(file)[0].records()
    assert [row["estimated (ppb)"] for row in unknown] == ["not determined", 3.12, None]
    assert [row["raw estimate (ppb)"] for row in unknown] == [3.123, 3.123, None]
    page = calibration_page(file, tables(file), Path(__file__)).html()
    assert page.index("not determined (1 to 8)") < page.index('id="answer"')
    assert "<td>3.12 ± 0.10 (3 to 3.2)</td>" in page
    assert "1 of 3 spectra fit nowhere: c" in page


def test_estimates_are_determined_by_the_parts_of_their_sets(calibration):
    about = [*"ab"], calibration.series.axis, "wavelength", "nm"
    spectra = Spectra(*about, beer.spectra_at([3.5, 40.0]), np.empty(0))
    near, far = calibration.estimated(Path(__file__), spectra)
    assert (near.determined, far.determined) == ([True], [False])


def test_the_recommended_limits_are_multiples_of_the_standard_error(calibration):
    nodes = np.linspace(0, 10, 101)
    profile = PrecisionProfile(nodes, np.full(101, 0.2), 50.0)
    found = precision_limit(profile, "PLS", "ppb", usable=True)
    assert found.detection == pytest.approx(0.66)
    assert found.quantification == pytest.approx(2)
    assert precision_limit(profile, "PLS", "ppb", usable=False).detection is None
    assert calibration.model.limits[0].method == "precision profile of straight line, weighted 1/c²"
