import re

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.reading.files import read_spectra
from tests.reading.tables import LEVELS, PPB, assert_refused, read_table

AXIS = np.arange(400.0, 410.0)
COUNTS = np.array([[9, 7, 7, 7, 7, 2, -3, -3, 100, 0]] * 4) + np.array([[0], [1], [2], [3]])


def affn(counts):
    return [f"400 {' '.join(map(str, counts[:5]))}", f"405 {' '.join(map(str, counts[5:]))}"]


def points(counts):
    return [f"{x:g}, {y}" for x, y in zip(AXIS, counts, strict=True)]


def digit(number, positive, negative):
    text = str(abs(number))
    return (positive if number >= 0 else negative)[int(text[0])] + text[1:]


def dif(counts):
    """Squeezed first value, differences, and the check of the first line at the second."""
    lines = []
    for start, first in ((0, 0), (4, 4)):
        line = f"{AXIS[start]:g}" + digit(counts[first], "@ABCDEFGHI", "@abcdefghi")
        for place in range(first + 1, first + 5 + (first > 0)):
            line += digit(counts[place] - counts[place - 1], "%JKLMNOPQR", "%jklmnopqr")
        lines.append(line)
    return lines


def dif_dup(counts):
    assert "%%%" in dif(counts)[0]
    return [line.replace("%%%", "%U") for line in dif(counts)]


def block(title="x", lines=None, label="", form="XYDATA=(X++(Y..Y))", **changes):
    head = {
        "JCAMP-DX": "4.24",
        "DATA TYPE": "UV-VIS SPECTRUM",
        "CONCENTRATIONS": label,
        "XUNITS": "NANOMETERS",
        "YUNITS": "ABSORBANCE",
        "XFACTOR": "1.0",
        "YFACTOR": "0.01",
        "FIRSTX": "400",
        "LASTX": "409",
        "NPOINTS": "10",
    } | {key.replace("_", " "): value for key, value in changes.items()}
    fields = [f"##{key}={value}" for key, value in head.items() if value]
    return "\n".join([f"##TITLE={title}", *fields, f"##{form}", *lines, "##END=", ""])


def link(blocks):
    head = "##TITLE=series\n##JCAMP-DX=4.24\n##DATA TYPE=LINK\n##BLOCKS=4\n"
    return head + "".join(blocks) + "##END=\n"


def series(lines=affn, titles=PPB, labels=("",) * 4, **changes):
    every = zip(titles, map(lines, COUNTS.tolist()), labels, strict=True)
    return [block(*one, **changes) for one in every]


def assert_series(table, unit="ppb"):
    np.testing.assert_array_equal(table.concentrations, LEVELS)
    np.testing.assert_allclose(table.axis, AXIS, rtol=1e-15)
    np.testing.assert_allclose(table.spectra, COUNTS / 100, rtol=1e-14)
    assert (table.axis_name, table.axis_unit) == ("wavelength", "nm")
    assert table.concentration_unit == unit


def sqz_dup(counts):
    """Squeezed values, the four that are equal as one with its count; packed where that is none."""
    assert counts[1:5] == [counts[1]] * 4
    first = "400" + "".join(digit(n, "@ABCDEFGHI", "@abcdefghi") for n in counts[:2]) + "V"
    return [first, "405" + "".join(f"{n:+d}" for n in counts[5:])]


def mixed(counts):
    """A difference, then a squeezed value that is repeated: neither it nor the next is checked."""
    less = digit(counts[1] - counts[0], "%JKLMNOPQR", "%jklmnopqr")
    value = digit(counts[1], "@ABCDEFGHI", "@abcdefghi")
    return [f"400 {counts[0]}{less}{value}U", affn(counts)[1]]


@pytest.mark.parametrize(
    ("lines", "changes"),
    [
        *((form, {}) for form in (affn, dif, dif_dup, sqz_dup, mixed)),
        *((points, {"form": f"{label}=(XY..XY)"}) for label in ("XYPOINTS", "XYDATA")),
    ],
)
def test_linked_blocks_in_every_form_of_their_points(file, lines, changes):
    assert_series(read_table(file(link(series(lines, **changes)), "series.JCAMP")))


SAME = {
    "Windows": ("\n", "\r\n"),
    "remarks of two lines": ("\n##XUNITS", "\n##COMMENT=one\ntwo\n##XUNITS"),
    "points of a link": ("##BLOCKS=4", "##NPOINTS=3"),
    "remarks behind": ("ABSORBANCE\n", "ABSORBANCE $$ or so\n"),
    "small letters": ("##XUNITS=NANOMETERS", "##xunits=nanometers"),
    "an axis with its unit": ("##XUNITS=NANOMETERS", "##XUNITS=Wavelength (nm)"),
    "blanks in a label": ("##DATA TYPE=", "##DATA  TYPE= "),
    "private labels": ("\n##XUNITS", "\n##$OWN=1\n##.OTHER=2\n##XUNITS"),
}


@pytest.mark.parametrize(("old", "new"), SAME.values(), ids=SAME)
def test_what_says_the_same_is_read_the_same(file, old, new):
    content = link(series(dif))
    assert old in content
    assert_series(read_table(file(content.replace(old, new), "series.jdx")))


def test_units_are_the_same_in_large_and_small_letters(tmp_path, file):
    assert_series(read_table(file(changed("ABSORBANCE", "Absorbance", count=1), "a.jdx")))
    (tmp_path / "mine").mkdir()
    for number, one in enumerate(series()):
        unit = "Absorbance" if number else "ABSORBANCE"
        file(one.replace("ABSORBANCE", unit), f"mine/{number}.dx")
    assert_series(read_table(tmp_path / "mine"))


@pytest.mark.parametrize(
    ("labels", "unit"),
    [
        (["0", "10", "20", "60"], None),
        (["0 ppb", "10 ppb", "20ppb", "60"], "ppb"),
        ([f"(NCU) (arsenic, {level}, mg/L)" for level in (0, 10, 20, 60)], "mg/L"),
    ],
)
def test_the_label_goes_before_the_title(file, labels, unit):
    titles = ["run 4", "run 3", "run 2", "run 1"]
    assert_series(read_table(file(link(series(titles=titles, labels=labels)), "a.jdx")), unit)


def test_one_of_several_components_is_asked_for(tmp_path, file):
    labels = [f"(NCU) (lead, {70 - n}, mg/L) (arsenic, {n}, ppb)" for n in (0, 10, 20, 60)]
    path = file(link(series(labels=labels)), "a.jdx")
    assert_series(read_table(path, target="Arsenic"), "ppb")
    lead = read_table(path, target="lead")
    assert (lead.concentrations.tolist(), lead.concentration_unit) == ([10, 50, 60, 70], "mg/L")
    assert_refused("no amount called 'zinc', expected one of 'lea", read_table, path, target="zinc")
    assert_refused("found several amounts, 'lead', 'arsenic'; choose", read_table, path)
    for number, one in enumerate(series(labels=labels)):
        file(one, f"{number}.dx")
    path.unlink()
    assert_series(read_table(tmp_path, target="arsenic"), "ppb")


def test_a_folder_of_files_and_scans_marked_in_titles(tmp_path, file):
    for number, text in enumerate(series()):
        file(text, f"{9 - number}.dx")
    assert_series(read_table(tmp_path))
    file(block("10 ppb__r2", affn((COUNTS[1] + 2).tolist())), "again.dx")
    (tmp_path / "notes.txt").touch()
    table = read_table(tmp_path)
    assert [len(scans) for scans in table.scans] == [1, 2, 1, 1]
    np.testing.assert_allclose(table.scans[1][1], (COUNTS[1] + 2) / 100)


def test_unknown_spectra_are_called_by_their_titles(file):
    found = read_spectra(file(link(series(titles=["tap", "well", "3", "10 ppb"])), "a.jdx"))
    assert found.names == ["tap", "well", "3", "10 ppb"]
    one = read_spectra(file(series(DATA_TYPE="RAMAN SPECTRUM", XUNITS="1/CM")[0], "a.jdx"))
    assert (one.axis_name, one.axis_unit, one.names) == ("raman_shift", "cm-1", ["0 ppb"])


def changed(*texts, form=affn, count=-1):
    """The series in a form, with texts in place of others, in all blocks or in some."""
    content = link(series(form, form="XYPOINTS=(XY..XY)") if form is points else series(form))
    for old, new in zip(texts[::2], texts[1::2], strict=True):
        assert old in content
        content = content.replace(old, new, count)
    return content


REFUSED = [
    (link(series(titles=list("0123"))), "block 1: found '0' as name of a sample"),
    # numbers of points, and their checks
    (changed("405 2 -3", "405 2"), r"block 1: found 9 points, expected 10 \(NPOINTS\)"),
    (changed("NPOINTS=10", "NPOINTS=99999999"), "found 99999999 points"),
    (changed("NPOINTS", "N"), "found no NPOINTS"),
    (changed("405 2", "417 2", count=1), "X of line 2 of points: found 417, expected 405"),
    (changed("404G", "404H", form=dif, count=1), r"line 17: found \[8.0\] after 7, expected"),
    (changed("##NPOINTS", "##FIRSTY=7\n##NPOINTS"), r"expected 7 \(FIRSTY\)"),
    (changed("400 9 7 7 7 7", "400I K2%S2"), "found 13 points, expected 10"),
    (changed("400 9 7 7 7 7", "400S9"), "found '400S9', expected numbers of JCAMP-DX"),
    (changed("400 9", "400 ?"), r"point 1, .*: found an empty or NaN cell"),
    # blocks
    (changed("LASTX=409", "LASTX=409.5", count=1), "block 2: found another axis"),
    (changed("NANOMETERS", "1/CM", count=1), "2: found .* in nm, ABS.*, expected .* in cm-1, ABS"),
    (changed("ABSORBANCE", "TRANSMITTANCE", count=1), "nm, ABSORBANCE, exp.* nm, TRANSMITTANCE as"),
    (changed("XYDATA=(X++(Y..Y))", "PEAK TABLE=(XY..XY)"), "found a block without XYDATA"),
    (changed("##XYDATA", "##XYPOINTS=(XY..XY)\n400 1\n##XYDATA"), "points twice in one block"),
    (changed("##END=\n", "", count=1), "line 18: found no END of a block"),
    (changed()[: changed().rindex("##XUNITS")], "end of the file behind 3 whole blocks"),
    (changed()[: changed().rindex("##TITLE")], "end of the file behind 3 whole blocks"),
    ("\0", "found binary data or a line of 1024 characters"),
    ("", "found a block without XYDATA"),
    # an axis that contradicts itself
    (changed("LASTX=409", "LASTX=410.5"), "X of line 2 of points: found 405"),
    (changed("LASTX=409", "LASTX=411", form=dif), "X of line 2 of points: found 404, expected 404"),
    (changed("XFACTOR=1.0", "XFACTOR=0.5"), "X of line 1 of points: found 200, expected 400"),
    (changed("##NPOINTS", "##DELTAX=2\n##NPOINTS"), "DELTAX: found 418, expected 409"),
    (changed("FIRSTX=400", "FIRSTX=300", form=points), "FIRSTX: found 300, expected 400"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=[one[1][:40] for one in REFUSED])
def test_what_the_parser_would_forgive_is_refused(file, content, message):
    assert_refused(message, read_table, file(content, "a.jdx"))


@pytest.mark.parametrize("form", [affn, dif_dup])
def test_a_factor_of_the_axis_is_that_of_its_lines(file, form):
    def doubled(counts):
        return [re.sub("^[0-9]+", lambda at: f"{2 * int(at[0])}", line) for line in form(counts)]

    blocks = series(doubled, XFACTOR="0.5", DELTAX="1.0")
    assert_series(read_table(file(link(blocks), "a.jdx")))


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("XYDATA=(X++(Y..Y))", ["400 0,5 1,5 2,5", "403 3,5 ?"]),
        ("XYDATA=(XY..XY)", ["400,0 0,5", "401,0 1,5; 402 2,5", "403 3,5", "404 ?"]),
        ("XYPOINTS=(XY..XY)", ["400, 0.5 401, 1.5", "402,2.5", "403,3.5 404,?"]),
    ],
)
def test_decimal_commas_and_missing_ordinates_are_read(file, form, lines):
    content = block("10 ppb", lines, form=form, NPOINTS="5", LASTX="404,0", YFACTOR="1")
    found = read_spectra(file(content, "a.jdx"), missing="mask")
    np.testing.assert_array_equal(found.axis, [400, 401, 402, 403])
    np.testing.assert_array_equal(found.values, [[0.5, 1.5, 2.5, 3.5]])
    np.testing.assert_array_equal(found.masked, [404])
    with pytest.raises(SpectraError, match=r"line 12: found '400,5,1,5'.* comma only as decimal"):
        read_spectra(file(block("x", ["400,5,1,5"], NPOINTS="3"), "a.jdx"))
