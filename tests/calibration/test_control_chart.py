"""Westgard's rules on histories of known z, and the file of a history."""

import subprocess
import sys
from dataclasses import replace
from itertools import chain, permutations

import numpy as np
import pytest

from geonode.calibration.checks import Control
from geonode.calibration.control_chart import ControlPoint, append, read_history, violations
from geonode.errors import SpectraError
from geonode.estimation.estimates import Estimate


def history(*sizes, name="QC"):
    """Estimates of 20 with standard error 0.5, a day apart."""
    return [
        ControlPoint(f"2026-01-{day:02}", "a.csv", name, 20.0, 20 + 0.5 * z, 0.5, z)
        for day, z in enumerate(sizes, 1)
    ]


def test_rules():
    for sizes, rules in (
        ((1.9, -1.9, 0.0), []),
        ((0.0, 2.1, 0.0, -3.1), ["1-2s", "1-3s"]),
        ((2.1, 2.2), ["1-2s", "1-2s", "2-2s"]),
        ((-2.1, 0.0, -2.2), ["1-2s", "1-2s"]),
        ((2.1, -2.2), ["1-2s", "1-2s", "R-4s"]),
        ((0.1,) * 10, ["10-x"]),
        ((-0.1,) * 11, ["10-x", "10-x"]),
        ((0.1,) * 9 + (-0.1,) + (0.1,) * 9, []),
        ((0.1,) * 9 + (0.0,), []),
    ):
        assert [one.rule for one in violations(history(*sizes))] == rules, sizes


def test_controls_of_one_date_are_compared_for_the_range_alone():
    low, between, high = (
        history(2.2, -2.2, name="low"),
        history(0.1, 0.2, name="between"),
        history(2.1, 2.1, name="high"),
    )
    for one in permutations([low, between, high]):
        found = [each for each in violations(chain(*one)) if each.rule in {"2-2s", "R-4s"}]
        pairs = {(each.rule, frozenset(each.points)) for each in found}
        assert pairs == {
            ("2-2s", frozenset(high)),
            ("R-4s", frozenset(low)),
            ("R-4s", frozenset([low[1], high[1]])),
        }


def test_a_history_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "qc.csv"
    assert read_history(path) == []
    path.touch()
    assert read_history(path) == []
    points = [
        *history(0.1, 0.2),
        ControlPoint("2026-02-01", "b", 'a "b", c', 1e-9, 1.1e-9, 1e-10, 1.0),
    ]
    append(path, points[:1])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().rstrip())  # as an editor saves it
    assert append(path, points[1:]) == points
    last = 1 + 1e-14  # as other processors round
    again = [one._replace(date="2026-03-01", estimate=last * one.estimate) for one in points]
    assert append(path, again) == points  # measured once
    assert read_history(path) == points


@pytest.mark.parametrize(
    ("sets", "known", "z"),
    [
        ([(18.0, 22.0)], 21.0, -1.0),  # 2 standard errors of 1 to both sides of 20
        ([(18.0, 22.0)], 23.0, -3.0),
        ([(18.0, 22.0)], 23.2, -3.2),
        ([(18.0, 26.0)], 23.0, -1.0),  # 3 above, and 1 below
        ([(18.0, 22.0), (30.0, 34.0)], 35.0, -3.0),  # from the middle of the nearest part
        ([(-np.inf, np.inf)], 99.0, 0.0),
    ],
)
def test_the_z_of_a_control_is_two_at_the_ends_of_its_set(sets, known, z):
    one = Estimate("QC", [20.0], [[(19.0, 21.0)]], True)
    found = Control.of("a.csv", "QC", known, one, replace(one, sets=[sets]), 0)
    assert found.z == pytest.approx(z)
    assert (found.warns, found.passed) == (2 < abs(z) <= 3, abs(z) <= 3)
    said = found.sentence("1")
    assert ("a warning" in said) == found.warns
    passed = "passed" if found.passed else "failed"
    assert said.startswith(f"control QC (a.csv) {passed}: found 20 (19 to 21), known {known:g}")
    misfit = replace(found, estimate=replace(one, fits=False))
    assert not misfit.passed
    nowhere = f"control QC (a.csv) failed: its spectrum fits nowhere, known {known:g}"
    assert misfit.sentence("1") == nowhere


def test_amounts_have_the_unit_of_their_control_in_the_history(tmp_path):
    path, (first, second) = tmp_path / "qc.csv", history(0.1, 0.2, name="=QC")
    path.write_text(HEADER + "2026-01-01,a.csv,'=QC,20.0,20.05,0.5,0.1\n")  # an older one
    assert read_history(path) == [first]
    found = append(path, [second._replace(unit="uM")])
    assert found == read_history(path) == [one._replace(unit="uM") for one in (first, second)]
    assert "\n2026-01-01,a.csv,'=QC,20," in path.read_text()
    third = ControlPoint("2026-01-03", "a.csv", "=QC", 0.02, 0.021, 0.0005, 2.0, "mmol/L")
    *_, last = append(path, [third])
    assert last[3:6] == pytest.approx((20, 21, 0.5))
    assert last.unit == "uM"
    assert append(path, [third, second]) == read_history(path)[:3]  # measured once
    before = path.read_bytes()
    with pytest.raises(SpectraError, match="control =QC: found amounts in ppb, expected uM"):
        append(path, [second._replace(unit="ppb")])
    assert path.read_bytes() == before
    append(path, [second._replace(control="low", unit="ppb")])  # another control


@pytest.mark.parametrize(
    ("unit", "other", "factor"),
    [
        *(("M", "mmol/L", 1e3), ("uM", "nM", 1e3), ("nM", "pM", 1e3)),
        *(("ppm", "ppb", 1e3), ("ppb", "ppt", 1e3), ("g/L", "mg/mL", 1.0), ("mg/L", "ug/mL", 1.0)),
        *(("mg/L", "ug/L", 1e3), ("ug/L", "ng/mL", 1.0), ("ng/mL", "ng/L", 1e3)),
    ],
)
def test_amounts_are_converted_between_units(unit, other, factor):
    (one,) = history(0.5)
    for own, wanted, times in ((unit, other, factor), (other, unit, 1 / factor)):
        found = one._replace(unit=own).converted(wanted)
        assert found[3:6] == pytest.approx([times * number for number in one[3:6]])
        assert (found.z, found.unit) == (one.z, wanted)


HEADER = "date,file,control,nominal,estimate,standard_error,z\n"

PROGRAM = """
import sys
from pathlib import Path
from geonode.calibration.control_chart import ControlPoint, append
for number in range(20):
    point = ControlPoint("2026-01-01", "", sys.argv[2], 1.0, float(number), 0.5, 0.0)
    append(Path(sys.argv[1]), [point])
"""


def test_processes_that_append_at_once_lose_nothing(tmp_path):
    path, names = tmp_path / "qc.csv", ["a", "b"]
    each = [subprocess.Popen([sys.executable, "-c", PROGRAM, path, name]) for name in names]
    assert [one.wait(120) for one in each] == [0, 0]
    found = read_history(path)
    for name in names:
        assert [one.estimate for one in found if one.control == name] == [*map(float, range(20))]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n", "found the header 'a,b'"),
        (f"{HEADER}2026,f,QC,1,nan,1,1\n", "line 2: found"),
        (f"{HEADER}2026,QC,1,2\n", "line 2: found"),
        (f"{HEADER}{'x' * 200_000},f,QC,1,1,1,1\n", "found no text of UTF-8"),
    ],
)
def test_other_files_stay_as_they_are(tmp_path, text, says):
    path = tmp_path / "qc.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpectraError, match=says):
        append(path, history(0.0))
    assert path.read_text(encoding="utf-8") == text
    with pytest.raises(SpectraError, match="control QC: found"):
        append(tmp_path / "new.csv", history(float("nan")))
    assert not (tmp_path / "new.csv").exists()
