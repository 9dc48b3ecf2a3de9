from pathlib import Path

import pytest

from geonode.calibration.files import NAMES, writing
from geonode.errors import ArtifactError, ParameterError


def write(calibration, folder, inputs=(), overwrite=False):
    with writing(folder, list(inputs), overwrite=overwrite) as put:
        put(calibration)


def test_a_folder_is_written_once_and_replaced_when_asked(calibration, tmp_path):
    folder = tmp_path / "out"
    write(calibration, folder)
    assert {entry.name for entry in folder.iterdir()} == NAMES - {"unknowns.csv"}
    with pytest.raises(ParameterError, match="--overwrite replaces it"):
        write(calibration, folder)
    before = (folder / "summary.csv").read_bytes()
    (folder / "summary.csv").write_text("edited")
    write(calibration, folder, overwrite=True)
    assert (folder / "summary.csv").read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["thesis.docx", "summary.csv"])
def test_what_is_not_ours_is_not_replaced(calibration, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ParameterError, match=name):
        write(calibration, tmp_path, overwrite=True)
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_or_the_folder_of_an_input_is_no_place(calibration, tmp_path):
    source = tmp_path / "in" / "series.csv"
    source.parent.mkdir()
    source.write_text("read here")
    with pytest.raises(ParameterError, match="which is read"):
        write(calibration, source.parent, [source], overwrite=True)
    with pytest.raises(ParameterError, match="a folder, or nothing"):
        write(calibration, source, [])


def test_an_error_leaves_nothing_or_what_was_there(calibration, tmp_path):
    folder = tmp_path / "out"
    with pytest.raises(ZeroDivisionError), writing(folder, [], overwrite=False) as put:
        put(calibration)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    write(calibration, folder)
    with pytest.raises(ZeroDivisionError), writing(folder, [], overwrite=True):
        raise ZeroDivisionError
    assert (folder / "index.html").is_file()


def test_what_the_operating_system_refuses_is_one_line():
    with pytest.raises(ArtifactError, match="cannot be written"):
        write(None, Path("/proc/nowhere/out"))
