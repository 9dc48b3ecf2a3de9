import json

from typer.testing import CliRunner

from geonode.cli import app
from tests.calibration import beer


def run(*arguments):
    return CliRunner().invoke(app, ["next", *map(str, arguments)])


def test_proposals_lie_between_the_levels_and_are_told_apart(tmp_path):
    file = beer.write_series(tmp_path / "beer.csv")
    done = run(file, "--count", 2, "--json")
    assert done.exit_code == 0, done.output
    found = [one["concentration"] for one in json.loads(done.stdout)["next"]]
    low, high = beer.LEVELS.min(), beer.LEVELS.max()
    assert len({*found, *beer.LEVELS}) == len(beer.LEVELS) + 2
    assert all(low < concentration < high for concentration in found)
    header, *lines = run(file, "--count", 2).stdout.splitlines()
    assert "(ppb)" in header
    assert [float(line.split()[0]) for line in lines] == [float(f"{one:.4g}") for one in found]


def test_a_wrong_file_or_step_is_one_line_and_status_2(tmp_path):
    file = beer.write_series(tmp_path / "beer.csv")
    for arguments, part in (
        ([tmp_path / "absent.csv"], "absent.csv"),
        ([file, "--preprocess", "[smooth]"], "smooth"),
        ([file, "--preprocess", "[snv"], "YAML"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert part in done.stderr
        assert len(done.stderr.splitlines()) == 1
