import pytest

from geonode.errors import ParameterError, SpectraError
from geonode.reading.folder import parameters_of_folder
from geonode.reading.series_file import read_series_csv
from tests.reading.tables import assert_refused, parameters

TABLE = """\
raman_shift_cm-1,5,5__r2,20,60,1
450,2.0,2.1,2.4,2.8,2.9
430,1.3,1.4,1.5,1.6,1.7
420,0.9,1.0,1.1,,1.3
410,0.5,0.6,0.7,0.8,0.9
400,0.1,0.2,0.3,0.4,0.5
"""
COMMON = parameters(source="other.csv", concentrations="of_other.csv")


@pytest.fixture
def folder(tmp_path):
    """Write files into a folder of its own, by name."""

    def write(**files):
        place = tmp_path / "series"
        place.mkdir(exist_ok=True)
        for name, text in files.items():
            file = place / name.replace("__", ".")
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return place

    return write


def test_every_series_has_the_common_parameters_but_for_its_own(folder):
    place = folder(
        b__csv=TABLE, a__csv=TABLE, a__yaml="chart: asinh\nkappa: 3.5\nwindow: [405, 450]\n"
    )
    found = parameters_of_folder(place, COMMON)
    assert list(found) == ["a", "b"]
    given = {"chart": "asinh", "kappa": 3.5, "window": (405.0, 450.0)}
    for name, own in (("a", given), ("b", {})):
        source = {"source": str(place / f"{name}.csv"), "concentrations": None}
        assert found[name].model_dump() == COMMON.model_dump() | source | own
    # What is common can be taken back.
    common = COMMON.model_copy(update={"chart": "asinh", "kappa": 2.0, "window": (400.0, 500.0)})
    back = folder(b__yaml="{chart: linear, kappa: null, window: null}")
    taken = parameters_of_folder(back, common)["b"]
    assert (taken.chart, taken.kappa, taken.window) == ("linear", None, None)
    # A name may have dots of its own.
    more = folder(**{"a__b__csv": TABLE, "a__b__yaml": "chart: log"})
    assert parameters_of_folder(more, COMMON)["a.b"].chart == "log"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chart: [1, 2", "file: found .*expected YAML"),
        (b"\xff\xfe\x00", "file: found .*expected YAML"),
        ("", "file: found None, expected a mapping of parameters but source"),
        ("source: a.csv", "file: found .*'a.csv'.*, expected a mapping of parameters but source"),
        ("chart: cubic", "chart: found 'cubic', expected .*'linear', 'log' or 'asinh'"),
        ("chart: asinh", "found .*, expected kappa must be given for the asinh chart"),
    ],
)
def test_a_wrong_file_of_parameters_is_named(folder, text, message):
    place = folder(a__csv=TABLE, b__csv=TABLE, b__yaml=text)
    with pytest.raises(ParameterError, match=message) as caught:
        parameters_of_folder(place, COMMON)
    assert str(caught.value).startswith(f"{place / 'b.yaml'}: ")
    assert "\n" not in str(caught.value)
    assert "Value error" not in str(caught.value)


def test_a_folder_without_series_and_no_folder(folder, tmp_path):
    place = folder(a__txt=TABLE)
    message = r"series: found no file \*\.csv, .*expected a folder of"
    assert_refused(message, parameters_of_folder, place, COMMON)
    for path in (tmp_path / "absent", place / "a.txt"):
        with pytest.raises(SpectraError, match=f"{path}: found no such folder, expected a folder"):
            parameters_of_folder(path, COMMON)
    (folder(a__csv=TABLE) / "a.yaml").mkdir()
    with pytest.raises(ParameterError, match=r"a\.yaml: file: found .*directory.*expected YAML"):
        parameters_of_folder(place, COMMON)


def test_a_series_has_one_file_of_any_format_but_notes(folder, caplog):
    found = parameters_of_folder(folder(a__CSV=TABLE, b__tsv=TABLE, notes__txt="no series"), COMMON)
    assert list(found) == ["a", "b"]
    assert "left out notes.txt" in caplog.text
    with pytest.raises(SpectraError, match=r"found b\.csv and b\.tsv, expected one file a series"):
        parameters_of_folder(folder(b__csv=TABLE), COMMON)


def test_a_unit_that_the_file_contradicts_is_an_error(folder):
    place = folder(a__csv=TABLE.replace(",20,", ",20 µg/L,"), a__yaml="concentration_unit: ug/l")
    own = parameters_of_folder(place, COMMON)["a"]
    assert read_series_csv(own).labels["concentration_unit"] == "ug/l"
    other = own.model_copy(update={"concentration_unit": "ppb"})
    assert_refused(r"a\.csv: .* set spectra.concentration_unit to µg/L", read_series_csv, other)
