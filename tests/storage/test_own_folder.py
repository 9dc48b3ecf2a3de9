from pathlib import Path

import pytest

from geonode.errors import ParameterError
from geonode.storage.own_folder import PAGE, listed_files, require_folder


@pytest.fixture
def folder(tmp_path):
    """A folder as it is written: a table and the page that lists it."""
    found = tmp_path / "out"
    found.mkdir()
    (found / "summary.csv").write_text("a\n1\n")
    (found / PAGE).write_text("<html></html>\n" + listed_files([found / "summary.csv"]))
    return found


def test_what_was_written_is_replaced_when_asked(folder):
    require_folder(folder, [], overwrite=True)
    with pytest.raises(ParameterError, match="--overwrite replaces it"):
        require_folder(folder, [], overwrite=False)
    for name in ("summary.csv", PAGE):
        (folder / name).unlink()
    require_folder(folder, [], overwrite=False)  # empty


@pytest.mark.parametrize("name", ["next.csv", "summary.csv", PAGE])
@pytest.mark.parametrize(
    "make",
    [Path.mkdir, lambda mine: mine.symlink_to("out"), lambda mine: mine.write_text("mine")],
)
def test_what_is_not_ours_is_not_replaced(folder, name, make):
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    with pytest.raises(ParameterError, match=f"{name}.*move your own or changed files away"):
        require_folder(folder, [], overwrite=True)


def test_a_file_and_the_folder_of_an_input_are_no_places(tmp_path):
    source = tmp_path / "in" / "series.csv"
    source.parent.mkdir()
    source.write_text("read here")
    for place in (source.parent, source):
        with pytest.raises(ParameterError, match="another folder than that of a file"):
            require_folder(place, [source], overwrite=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ParameterError, match="a name that is not taken"):
        require_folder(tmp_path / "link", [], overwrite=True)
