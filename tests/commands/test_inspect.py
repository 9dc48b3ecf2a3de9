import json

import pytest

from geonode.config import SpectraParameters
from geonode.parameters_file import parse_yaml
from tests.commands.calling import call

TEXT = "wavelength_nm,0,10,20,60\n400,1,2,3,4\n410,5,,7,8\n420,9,8,7,6\n430,5,4,3,2\n"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "mine.csv").write_text(TEXT, encoding="utf-8")
    return lambda *words: call("inspect", tmp_path / "mine.csv", *words)


def test_what_was_understood_and_chosen_is_proposed(tmp_path, run):
    rows = (
        "Instrument: X\nwavelength_nm,0,20,20.1,5,40\n400,1,2,3,4,5\n# lamp changed\n"
        "410,2,3,4,5,6\n420,3,4,5,6,7\n"
    )
    (tmp_path / "mine.csv").write_text(rows + "\nEnd\n", encoding="utf-16")
    refused = run()
    assert refused.exit_code == 2
    assert "set --replicates to levels or to marks" in refused.stderr
    result = run("--replicates", "marks")
    for part in (
        "encoding       UTF-16",
        "header         row 2",
        "left out       row 1 (above the table); row 4 (comments); row 8 (below the table)",
        "2 scans",
        'replicates: "marks"',
        "--replicates marks",
    ):
        assert part in result.stdout
    block = parse_yaml(result.stdout[result.stdout.index("spectra:") :].split("\n\n")[0])["spectra"]
    assert SpectraParameters.model_validate(block).replicates == "marks"
    found = json.loads(run("--replicates", "levels", "--json").stdout)
    assert found["levels"] == [0, 5, 20, 20.1, 40]
