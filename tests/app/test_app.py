"""The page that calibrates and estimates: the whole job, and whom it does not answer."""

import csv
import io
import os
import re
import subprocess
import sys
import urllib.request
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from openpyxl import Workbook

from tests.app.conftest import SECRET, refused
from tests.calibration import beer
from tests.commands.calling import call
from tests.mixtures import beer as mixtures

HOME = f"/{SECRET}/"
STEPS = "[{savgol: {window: 5, degree: 2}}]"
UNKNOWN = dict(zip(("a", "QC"), beer.spectra_at([1.5, 5.0]), strict=True))


def series(levels=range(5)):
    """A series with one scan of every level."""
    names = (f"{level} ppb" for level in levels)
    return beer.table(dict(zip(names, beer.spectra_at(levels), strict=True)))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of a week, and the folder that the command makes of them."""
    folder = tmp_path_factory.mktemp("files")
    beer.write_series(folder / "beer.csv")
    (folder / "monday.csv").write_text(beer.table(UNKNOWN))
    (folder / "tuesday.csv").write_text(beer.table({"b": 3 - UNKNOWN["a"]}))
    drifted = 0.01 + 1.1 * beer.spectra_at([1, 4, 9])
    standards = dict(zip(("1 ppb", "4 ppb", "9 ppb"), drifted, strict=True))
    (folder / "standards.csv").write_text(beer.table(standards))
    known = dict(zip(("3 ppb", "6 ppb"), beer.spectra_at([3, 6]), strict=True))
    (folder / "known.csv").write_text(beer.table(known))
    words = ("--preprocess", STEPS, *("--quantity", "light", "--unit", "V"))
    call("calibrate", folder / "beer.csv", *words, "--out", folder / "made", status=0)
    return folder


def dropped(field, *paths):
    return [(field, (path.name, path.read_bytes())) for path in paths]


def rows(text):
    return [*csv.reader(io.StringIO(text))]


def test_the_whole_job_gives_what_the_commands_give(served, files, tmp_path):
    item, page = served.submit(HOME, *dropped("spectra", files / "beer.csv"))
    inspected = call("inspect", files / "beer.csv").stdout.rstrip()
    shown = unescape(re.search(r"<pre>(.*?)</pre>", page, re.S)[1])
    assert shown.split() == inspected.replace(str(files), "spectra").split()
    words = ("preprocess", STEPS), ("quantity", "light"), ("unit", "V")
    item, page = served.submit(item, ("calibrate", ""), *words)
    assert page.index("<iframe src") < page.index('href="limits.csv?download"')  # results first
    result = served.ask("GET", f"{item}index.html")[1]
    assert "Use combined" in result
    assert "--calibration calibration/calibration.safetensors" in result
    for name in ("left_out.csv", "limits.csv", "predicted.csv", "spectra.csv"):
        assert served.ask("GET", item + name)[1] == (files / "made" / name).read_text()
    assert served.ask("GET", f"{item}calibration.xlsx")[0] == 200

    days, checks = (files / "monday.csv", files / "tuesday.csv"), ("--control", "QC=5")
    validation = files / "known.csv"
    made, page = served.submit(
        item,
        ("estimate", ""),
        ("controls", "QC=5\n"),
        ("user", "A. Chemist"),
        *dropped("spectra", *days),
        *dropped("validation", validation),
    )
    by = ("--calibration", files / "made/calibration.safetensors", "--validation", validation)
    done = call("estimate", *days, *checks, *by, "--out", tmp_path / "estimates.csv")
    assert done.exit_code == 1  # tuesday's spectrum fits nowhere
    for name in ("estimates.csv", "estimates.controls.csv"):
        assert served.ask("GET", made + name)[1] == (tmp_path / name).read_text()
    found = dict(rows(served.ask("GET", f"{made}estimates.record.csv")[1])[1:])
    assert (found["user"], found["read"]) == ("A. Chemist", "validation/known.csv")
    good, bad = (
        re.findall(rf'<li class="{kind}">(.*?)</li>', unescape(page)) for kind in ("good", "bad")
    )
    judged = done.stdout.splitlines()[1].partition(": ")[2]
    assert (good[0], good[1].partition(": ")[2]) == ("1 of 1 controls passed.", judged)
    assert good[2].startswith("Use combined")
    assert bad == ["1 of 3 spectra fit nowhere: b"]
    for line in done.stdout.splitlines()[-3:]:  # estimates with intervals and remarks, as printed
        assert all(f">{cell}</t" in unescape(page) for cell in re.split(" {2,}", line)), line
    places = [page.index(text) for text in (good[0], '"brief"', *bad, "estimates.xlsx")]
    assert places == sorted(places)


def test_a_saved_calibration_is_opened_and_corrected_by_standards(served, files):
    saved = files / "made/calibration.safetensors"
    item, page = served.submit(HOME, *dropped("spectra", saved))
    assert "Use combined" in page
    assert 'name="calibrate"' not in page
    standards = dropped("standards", files / "standards.csv")
    unknowns = dropped("spectra", files / "monday.csv")
    _, page = served.submit(item, ("estimate", ""), *unknowns, *standards)
    assert "Estimates are corrected" in page
    _, page = served.submit(item, ("estimate", ""), *unknowns, ("controls", "<img src=x>=5"))
    assert "<img" not in page
    assert "<img" in refused(page)
    damaged = ("spectra", ("x.safetensors", saved.read_bytes()[:-9]))
    item, page = served.submit(HOME, damaged)
    assert refused(page).startswith("spectra/x.safetensors: found a damaged file")
    assert 'name="estimate"' not in page


def test_options_of_estimates_are_those_of_the_command(served, files, tmp_path):
    calibration = files / "made/calibration.safetensors"
    item, _ = served.submit(HOME, *dropped("spectra", calibration))
    words = ("--level", "0.95", "--align", "--control", "QC=5", "--history", tmp_path / "qc.csv")
    (tmp_path / "list.csv").write_text("name,dilution\na,10\nQC,1\n")
    words += ("--dilution", tmp_path / "list.csv", "--out", tmp_path / "out.csv", "--overwrite")
    for day in range(2):
        done = call("estimate", files / "monday.csv", *words, "--calibration", calibration)
        assert done.exit_code == 0, done.output
        sent = dropped("history", tmp_path / "before.csv") if day else []
        fields = [("estimate", ""), ("level", "0.95"), ("align", "on"), ("controls", "QC=5")]
        fields += dropped("spectra", files / "monday.csv")
        fields += dropped("dilution", tmp_path / "list.csv")
        estimates, page = served.submit(item, *fields, *sent)
        assert refused(page) is None
        names = ("estimates.csv", "history.csv", "history.html")
        found = {name: served.ask("GET", f"{estimates}{name}?download")[1] for name in names}
        assert rows(found["estimates.csv"]) == rows((tmp_path / "out.csv").read_text())
        own, theirs = found["history.csv"], (tmp_path / "qc.csv").read_text()
        assert [row[1:] for row in rows(own)] == [row[1:] for row in rows(theirs)]  # but the date
        assert "data-figure" in found["history.html"]
        (tmp_path / "before.csv").write_text(found["history.csv"])
    sent = dropped("spectra", files / "monday.csv")
    for name, value in (("sheet", "first"), ("level", "2"), ("dilution", "-1"), ("level", "much")):
        _, page = served.submit(item, ("estimate", ""), *sent, (name, value))
        assert f"--{name}" in refused(page)
        assert value in refused(page)
    sent += dropped("history", tmp_path / "before.csv")
    assert "expected controls of today" in refused(served.submit(item, ("estimate", ""), *sent)[1])
    series, _ = served.submit(HOME, *dropped("spectra", files / "beer.csv"))
    for name, value in (
        *(("sheet", "first"), ("level", "90"), ("precision", "0")),
        *(("method", "magic"), ("preprocess", "[snow]"), ("window", "x"), ("window", "500")),
    ):
        _, page = served.submit(series, ("calibrate", ""), (name, value))
        assert name in refused(page)
        served.submit(series, ("look", ""), (name, ""))


def test_what_a_file_leaves_open_is_chosen(served, tmp_path):
    book = Workbook()
    for sheet in (book.active, book.create_sheet("second")):
        for row in rows(series()):
            sheet.append(row)
    book.active.title = "first"
    book.save(tmp_path / "book.xlsx")
    item, page = served.submit(HOME, *dropped("spectra", tmp_path / "book.xlsx"))
    assert "'first', 'second'" in refused(page)
    assert "choose it by --sheet" in refused(page)
    assert '<option value="second">' in page
    _, page = served.submit(item, ("look", ""), ("sheet", "second"))
    assert refused(page) is None
    assert '<input name="sheet" value="second"' in page
    window = ("window", "450 550")
    assert "450 to 550" in served.submit(item, ("look", ""), ("sheet", "second"), window)[1]


def test_mixtures_are_read_together_or_one_alone(served):
    table = mixtures.table().to_csv(index=False)
    item, page = served.submit(HOME, ("spectra", ("mixtures.csv", table)))
    assert "all substances can be calibrated together" in page
    names = re.findall(r'<option value="(\w+)">', page.partition('name="target"')[2])[:2]
    _, page = served.submit(item, ("look", ""), ("target", names[0]))
    assert refused(page) is None
    assert "levels" in page


def test_several_files_are_one_series_with_a_table_of_concentrations(served):
    files = enumerate(beer.spectra_at([1, 2, 4, 8]), 1)
    single = [("spectra", (f"s{at}.csv", beer.table({"A": one}))) for at, one in files]
    table = ("concentrations", ("names.csv", "name,ppb\ns1,1\ns2,2\ns3,4\ns4,8\n"))
    _, page = served.submit(HOME, *single, table)
    assert refused(page) is None, refused(page)
    assert "levels         4" in page


def test_two_series_at_once_do_not_disturb_each_other(served):
    both = [served.post(HOME, [("spectra", ("x.csv", series()))]) for _ in range(2)]
    items = [headers["location"] for _, _, headers in both]
    assert [refused(served.page(item)) for item in items] == [None, None]
    for item in items:
        served.post(item, [("calibrate", ""), ("method", "pls")])
    assert [refused(served.page(item)) for item in items] == [None, None]
    first, second = (served.ask("GET", f"{item}left_out.csv")[:2] for item in items)
    assert first == second
    assert first[0] == 200


def test_a_refused_file_is_one_line_and_the_old_result_is_gone(served):
    for name in ("notes.xlsx", "notes.csv"):
        item, page = served.submit(HOME, ("spectra", (name, "no spectra\n")))
        assert refused(page).startswith(f"spectra/{name}: ")
        assert "\n" not in refused(page)
    for other in (HOME, item):
        _, page = served.submit(other, ("estimate", ""), ("concentrations", ("a.csv", "a,1\n")))
        assert refused(page) == "found no file of spectra, expected one or more"
    item, _ = served.submit(HOME, ("spectra", ("beer.csv", series())))
    _, page = served.submit(item, ("calibrate", ""), ("method", "pls"))
    assert "limits.csv" in page
    _, page = served.submit(item, ("calibrate", ""), ("window", "9 1"))
    assert refused(page)
    assert "limits.csv" not in page
    assert 'name="estimate"' not in page


def test_a_calibration_that_no_method_can_use_estimates_if_that_is_accepted(served, files):
    noise = np.random.default_rng(6).normal(size=(8, len(beer.AXIS)))
    columns = {f"{level} ppb": spectrum for level, spectrum in enumerate(noise)}
    item, _ = served.submit(HOME, ("spectra", ("noise.csv", beer.table(columns))))
    item, page = served.submit(item, ("calibrate", ""))
    assert '<input type="checkbox" name="accept" required>' in page
    asked = ("estimate", ""), ("spectra", ("x.csv", beer.table({"x": noise.mean(axis=0)})))
    _, page = served.submit(item, *asked)
    assert "Accept it to estimate" in refused(page)
    assert "estimates.csv" not in page
    _, page = served.submit(item, *asked, ("accept", "on"))
    assert refused(page) is None
    assert "no method can be used: see the verdict" in page
    assert "estimates.csv" in page


NAMES = ("../../up.csv", "..\\\\..\\\\up.csv", "/etc/up.csv", "..", "<img src=x>.csv", "a\tb.csv")


def test_names_are_no_paths_and_no_html(served):
    _, page = served.submit(HOME, *(("spectra", (name, series())) for name in NAMES))
    files = [one for one in served.folder.rglob("*") if one.is_file()]
    assert len(files) == len(NAMES)
    assert {one.parent for one in files} == {served.folder / "1/spectra"}
    assert not [*served.folder.parent.glob("*.csv")]
    assert "<img" not in page


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (HOME, {}, 303),
        (HOME, {"Host": "evil.test"}, 421),
        (HOME, {"Host": "localhost"}, 421),
        (HOME, {"Origin": "http://evil.test"}, 403),
        (HOME, {"Origin": "null"}, 403),
        (HOME, {"Origin": None}, 403),
        ("/", {}, 404),
        ("/wrong/", {}, 404),
        (f"{HOME[:-2]}/", {}, 404),
        (f"{HOME}7/", {}, 404),
    ],
)
def test_only_its_own_pages_are_answered(served, path, headers, status):
    found, text, _ = served.post(path, [("spectra", ("x.csv", series()))], **headers)
    assert found == status
    assert len(served.desk.items) == (status == 303)
    assert SECRET not in text


def test_reading_needs_host_and_secret_too(served):
    assert served.ask("GET", HOME)[0] == 200
    assert served.ask("GET", HOME, Host="evil.test")[0] == 421
    assert served.ask("GET", "/")[0] == 404
    served.submit(HOME, ("spectra", ("x.csv", series())))
    for path in ("1/x.csv", "1/..%2fspectra%2fx.csv", "1/spectra/x.csv", "1/%2fetc%2fpasswd"):
        assert served.ask("GET", HOME + path)[0] == 404


def test_files_are_bounded(served):
    status, text, _ = served.ask("POST", HOME, b"1" * (2**28 + 1))
    assert (status, served.desk.items) == (413, {})
    assert text.endswith("bytes, expected files of at most 268435456; go back")
    status, _, _ = served.ask("POST", HOME, iter([b"x"]))  # in chunks, without its size
    assert (status, served.desk.items) == (411, {})


@pytest.mark.parametrize("end", ["SIGTERM", "button"])
def test_the_command_ends_and_leaves_nothing(end, tmp_path):
    pytest.importorskip("starlette")
    command = [sys.executable, "-m", "geonode.cli", "app", "--no-browser"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"Spectra of known concentration" in answer.read()
        assert [one for one in tmp_path.iterdir() if one.name.startswith("geonode-")]
        if end == "button":
            origin = address.rpartition("/")[0].rpartition("/")[0]
            asked = urllib.request.Request(address, b"end=", {"Origin": origin})
            urllib.request.urlopen(asked, timeout=60).close()
        else:
            process.terminate()
        _, complaints = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in complaints
    assert not [*tmp_path.iterdir()]


def test_a_taken_port_is_refused_in_one_line(served):
    done = call("app", "--no-browser", "--port", served.host.rpartition(":")[2], status=2)
    assert "Address already in use" in done.output
    assert not Path("spectra").exists()
