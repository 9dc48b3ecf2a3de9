import json

from geonode.config import SpectraParameters
from geonode.parameters_file import parse_yaml
from tests.commands.calling import call


def test_what_was_understood_and_chosen_is_proposed(tmp_path):
    rows = (
        "Instrument: X\nwavelength_nm,0,20,20.1,5,40\n400,1,2,3,4,5\n# lamp changed\n"
        "410,2,3,4,5,6\n420,3,4,5,6,7\n"
    )
    (tmp_path / "mine.csv").write_text(rows + "\nEnd\n", encoding="utf-16")
    words = "inspect", tmp_path / "mine.csv"
    assert "set --replicates to levels or to marks" in call(*words, status=2).stderr
    result = call(*words, "--replicates", "marks")
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
    found = json.loads(call(*words, "--replicates", "levels", "--json").stdout)
    assert found["levels"] == [0, 5, 20, 20.1, 40]
