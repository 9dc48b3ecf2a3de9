"""What is wrong is one line that says what, and nothing is written."""

import math
import shutil

import numpy as np
import pytest

from geonode.calibration.saved import save_calibration
from tests.calibration import beer
from tests.commands.calling import call, contents
from tests.estimation.images import store
from tests.mixtures import beer as mixed
from tests.mixtures.beer import NM, UNKNOWN, frame, table
from tests.stages.conftest import assert_refused
from tests.test_config import write_parameters

SOME = [0, 12, 24, 36, 48, 59]
SAMPLES = dict(zip("abc", beer.spectra_at([1.5, 4.0, 7.0]), strict=True))


def texts():
    """Files by name: of one substance, and of lead and zinc with an m before their names."""
    good = beer.table(SAMPLES)
    mixtures = mixed.spectra(UNKNOWN)
    tables = {
        "m_day": frame(mixtures, ["QC", *"bcd"]),
        "m_short": frame(mixtures, "abcd").drop(columns="400"),
        "m_coarse": frame(mixtures, "abcd")[["sample", *map(str, NM[SOME])]],
        "m_known": table(),
        "m_judged": table(UNKNOWN),
        "m_iron": table(UNKNOWN, ["y_lead (ppm)", "y_iron (ppm)"]),
        "m_unit": table(UNKNOWN, ["y_lead (g/L)", "y_zinc (g/L)"]),
        "m_outside": table(np.vstack([UNKNOWN, [[5, 12]]])),
        "m_twice": table(headers=["y_lead", "Y_lead"]),
        "m_flat": table().assign(**dict.fromkeys(map(str, NM), 1.0)),
    }
    return {
        "good": good,
        "axis": good.replace("\n400,", "\n401,"),
        "unit": good.replace("wavelength_nm", "raman_shift_cm1"),
        "half": "sample,dilution\na,10\n",
        "groups": 'sample,dilution\na,"1,000"\nb,1\nc,1\n',
        "two_each": "sample,dilution,dilution\na,10,5\nb,10,5\nc,10,5\n",
        "twice": good.replace(",b,", ",a,"),
        "gap": good.rstrip().rpartition(",")[0] + ",\n",
        "short": "\n".join(line for line in good.splitlines() if line[:2] != "40"),
        "outside": beer.table({"20 ppb": SAMPLES["a"]}),
        "one": beer.table({"0": beer.UNIT_SPECTRUM}),
        "gaps": beer.table({"0": beer.UNIT_SPECTRUM * math.nan}),
        **{name: one.to_csv(index=False) for name, one in tables.items()},
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory, calibration, mixture, trained):
    """A folder of files, of saved calibrations and of a pipeline."""
    folder = tmp_path_factory.mktemp("wrong")
    shutil.copytree(trained / "data", folder / "data")
    for name in ("folder.csv", "foreign.zarr"):
        (folder / name).mkdir()
    for name in ("file.zarr", "foreign.zarr/mine.txt"):
        (folder / name).touch()
    for name, text in texts().items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    write_parameters(folder / "wrong.yaml", {"metric.epochs": -3})
    (folder / "empty").mkdir()
    (folder / "page.html").touch()
    beer.write_series(folder / "beer.csv")
    save_calibration(folder / "one.safetensors", calibration)
    save_calibration(folder / "two.safetensors", mixture)
    content = (folder / "one.safetensors").read_bytes()
    (folder / "bad.safetensors").write_bytes(content[:-9] + b"x" + content[-8:])
    values = mixed.spectra(UNKNOWN)[:, SOME].reshape(2, 2, -1)
    store(folder / "coarse.zarr", values, NM[SOME].astype(float))
    return folder


ONE = ["--calibration", "one.safetensors", "--out", "out.csv"]
TWO = ["--calibration", "two.safetensors", "--out", "out.csv"]
BAD = ["--calibration", "bad.safetensors"]
HISTORY = ["good.csv", *ONE, "--control", "a=1.5", "--history"]
MAPS = ["--calibration", "two.safetensors", "--out", "out.zarr"]
ESTIMATE = {
    "empty folder": (["empty", *ONE], "empty: found no file of spectra"),
    "axis": (["axis.csv", *ONE], "axis: found 401 to 600 nm"),
    "uncovered": (["short.csv", *ONE], "400 to 410 nm is missing"),
    "gap": (["gap.csv", *ONE], "an empty or NaN cell"),
    "axis unit": (["unit.csv", *ONE], "axis: found a raman"),
    "one name twice": (["twice.csv", *ONE], "expected every name once"),
    "control": (["good.csv", *ONE, "--control", "QC=5"], "--control: found 'QC'"),
    "level": (["good.csv", *ONE, "--level", 0.5], "--level: found 0.5, expected"),
    "history": (["good.csv", *ONE, "--history", "q.csv"], "'q.csv', expected --control NAME=NUM"),
    "no history": ([*HISTORY, "beer.csv"], "beer.csv: found the header"),
    "history and results": ([*HISTORY, "out.csv"], "--out: found 'out.csv', expected another pla"),
    "page of others": ([*HISTORY, "page.csv"], "--history: found 'page.html', expected a name tha"),
    "dilution": (["good.csv", *ONE, "--dilution", 0], "--dilution: found '0', expected a number"),
    "thousands": (["good.csv", *ONE, "--dilution", "1,000"], "found '1,000', expected a number"),
    "a ratio": (["good.csv", *ONE, "--dilution", "1:10"], "found '1:10', expected a number above"),
    "thousands of one": (["good.csv", *ONE, "--dilution", "groups.csv"], "'1,000', expected a num"),
    "two of each": (["good.csv", *ONE, "--dilution", "two_each.csv"], "columns of names and one"),
    "a huge one": (["good.csv", *ONE, "--dilution", 1e300], "found '1e+300', expected a number"),
    "dilutions": (["good.csv", *ONE, "--dilution", "good.csv"], "good.csv: found 'wavelength_nm'"),
    "a dilution": (["good.csv", *ONE, "--dilution", "half.csv"], "found no dilution of 'b'"),
    "sheet": (["good.csv", *ONE, "--sheet", "x"], "--sheet: found 'x', expected a workbook"),
    "range": (["good.csv", *ONE, "--validation", "outside.csv"], "a concentration of 20 ppb"),
    "replaced": (["good.csv", *ONE[:3], "good.csv", "--overwrite"], "which is read here"),
    "ending": (["good.csv", *ONE[:3], "out.txt"], "a name that ends in .csv or .xlsx"),
    "target": (["good.csv", *ONE, "--target", "x"], "--validation or --standards beside it"),
    "workers": (["good.csv", *ONE, "--workers", 2], "--workers: found 2, expected an image"),
    "format": (["good.csv", *ONE, "--cache-dtype", "float16"], "--cache-dtype: found 'float16'"),
    "device": (["good.csv", *ONE, "--device", "cpu"], "--device: found 'cpu', expected an image"),
    "no pipeline": (["good.csv", "--root", "x"], "x/data/calibration.safetensors: found no such"),
    "damaged": (["good.csv", *BAD, "--out", "out.csv"], "found a damaged file"),
    "a folder": (["good.csv", "--calibration", "empty"], "empty: found a folder, expected a cali"),
    "several, axis": (["m_short.csv", *TWO], "axis: found 402 to 518, expected all of 400 to 518"),
    "coarse": (["m_coarse.csv", *TWO], " of lead of the series itself is estimated as "),
    "coarse image": (["coarse.zarr", *MAPS], "coarse.zarr: axis: found steps of 24, at which the "),
    "a number less": (["m_day.csv", *TWO, "--control", "QC=2"], "NAME and amounts of lead and zin"),
    "negative": (["m_day.csv", *TWO, "--control", "QC=2,-1"], "none negative"),
    "nan": (["m_day.csv", *TWO, "--control", "QC=2,nan"], "none negative"),
    "no number": (["m_day.csv", *TWO, "--control", "QC=2,x"], "such as QC=20,20"),
    "standards": (["m_day.csv", *TWO, "--standards", "m_judged.csv"], "a line corrects one substa"),
    "no amounts": (["m_day.csv", *TWO, "--validation", "m_day.csv"], "expected amounts of lead an"),
    "substances": (["m_day.csv", *TWO, "--validation", "m_iron.csv"], "found lead and iron, expec"),
    "unit": (["m_day.csv", *TWO, "--validation", "m_unit.csv"], "found concentrations in g/L, exp"),
    "several, range": (["m_day.csv", *TWO, "--validation", "m_outside.csv"], "zinc: found a conc"),
}
CALIBRATE = {
    "absent": (["absent.csv"], "No such file"),
    "one level": (["one.csv"], "found 1 concentrations, expected 3"),
    "missing values": (["gaps.csv"], "an empty or NaN cell"),
    "axis": (["beer.csv", "--unknown", "axis.csv"], "axis.csv: axis: found 401 to 600"),
    "another unit": (["beer.csv", "--concentration-unit", "mol/L"], "concentrations in ppb, and"),
    "step": (["beer.csv", "--preprocess", "[smooth]"], "options: --preprocess 0 smooth: found"),
    "yaml": (["beer.csv", "--preprocess", "[snv"], "YAML"),
    "ends": (["beer.csv", "--window", 500, 100], "options: --window: found '500.0 100.0'"),
    "method": (["beer.csv", "--method", "ols"], "expected auto, straight_line"),
    "precision": (["beer.csv", "--precision", 0], "found 0.0, expected greater than 0"),
    "level": (["beer.csv", "--level", 1], "--level: found 1.0, expected less than 1"),
    "no control": (["beer.csv", "--control", "QC=5"], "found 'QC=5', expected spectra of unknow"),
    "nothing diluted": (["beer.csv", "--dilution", 10], "--dilution: found '10', expected spectra"),
    "nothing off": (["beer.csv", "--align"], "--align: found True, expected spectra of unknowns"),
    "offset": (["beer.csv", "--preprocess", "[snv]", "--allow-offset"], "--allow-offset: found Tr"),
    "scale by PLS": (["beer.csv", "--method", "pls", "--allow-scale"], "--method: found 'pls', ex"),
    "method of several": (["m_known.csv", "--method", "pls"], "--method: found 'pls', expected no"),
    "scale of several": (["m_known.csv", "--allow-scale"], "--allow-scale: found True, expected"),
    "no such amount": (["m_known.csv", "--target", "iron"], "found no amount called 'iron'"),
    "unit": (["m_known.csv", "--concentration-unit", "mol/L"], "in mol/L and in ppm, exp"),
    "window": (["m_known.csv", "--window", 10, 20], "keeps 0 wavelengths"),
    "one name twice": (["m_twice.csv"], "two amounts called 'lead'"),
    "flat": (["m_flat.csv"], "m_flat.csv: spectra: found the same one in all samples, or in all"),
}
SOME_LEVELS = ["--concentration", 12.5, "--concentration", 30]
PREDICT = {
    "none": ([], "expected one or more, or --at-range START:STOP:STEP"),
    "outside": (["--concentration", 75], "75.0, expected 0 to 60 ppb, the measured range; --extr"),
    "negative": (["--concentration", -1], "found -1.0, expected 0 to 60 ppb, the measured range"),
    "range": (["--at-range", "0:60"], "found '0:60', expected START:STOP:STEP"),
    "extension": ([*SOME_LEVELS, "--out", "out.xlsx"], "a name that ends in .csv or .zarr"),
    "folder": ([*SOME_LEVELS, "--out", "absent/out.csv"], "a folder that exists; make absent"),
    "is folder": ([*SOME_LEVELS, "--out", "folder.csv"], "expected a file, not a folder"),
    "is file": ([*SOME_LEVELS, "--out", "file.zarr"], "expected a folder, not a file"),
    "far": (["--concentration", 1e300, "--extrapolate", "--out", "out.csv"], "1e+300, exp"),
    "model": ([*SOME_LEVELS, "--out", "data/spectra.zarr"], "expected another place than"),
    "foreign": ([*SOME_LEVELS, "--out", "foreign.zarr", "--overwrite"], "folder but no artifact"),
    "format": ([*SOME_LEVELS, "--cache-dtype", "float32", "--out", "out.csv"], "that is a .zarr"),
    "no model": ([*SOME_LEVELS, "--root", "empty"], "empty/data/spectra.zarr: not found; run `dvc"),
}
GEODESIC = {
    "off the chart": ([10, 70], "TO: found 70.0, expected 0 to 60, the range of the chart"),
    "of no length": ([10, 10], "TO: found 10.0, expected another concentration than FROM"),
    "off the axis": ([10, 20, "--wavelength", 399], "399.0, expected 400 to 700, the range of the"),
}
PANEL = {
    "empty": (["empty", "--out", "panel.csv"], "no file *.csv"),  # outside of a project
    "parameters": (["data", "--out", "panel.csv", "--params", "wrong.yaml"], "epochs: found -3"),
    "there": (["data", "--out", "good.csv"], "good.csv', expected a name that is not taken;"),
    "ending": (["data", "--out", "panel.txt"], "a name that ends in .csv"),
    "within": (["data", "--out", "data/panel.csv"], "expected another place than data"),
}
WRONG = {f"estimate, {name}": (["estimate", *one[0]], one[1]) for name, one in ESTIMATE.items()}
WRONG |= {
    f"calibrate, {name}": (["calibrate", *words, "--out", "out"], message)
    for name, (words, message) in CALIBRATE.items()
}
for name, cases in (("predict", PREDICT), ("geodesic", GEODESIC), ("panel", PANEL)):
    WRONG |= {f"{name}, {key}": ([name, *one[0]], one[1]) for key, one in cases.items()}


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line_and_nothing_is_written(place, monkeypatch, words, message):
    monkeypatch.chdir(place)
    before = contents(place)
    done = call(*words)
    assert_refused(done, "error: ", message)
    assert done.stdout == ""
    assert contents(place) == before
