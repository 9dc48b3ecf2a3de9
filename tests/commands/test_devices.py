import json
import re

import torch

from tests.commands.calling import call


def test_devices_are_a_table_and_a_line_about_the_machine_or_json():
    found = json.loads(call("devices", "--json", status=0).stdout)
    kinds, chosen = zip(*((one["kind"], one["automatic"]) for one in found["devices"]), strict=True)
    assert (kinds[0], sum(chosen)) == ("cpu", 1)
    assert found["machine"]["torch"] == torch.__version__
    result = call("devices", status=0)
    _, *lines, _, about = result.stdout.splitlines()
    for line, device in zip(lines, found["devices"], strict=True):
        kind, *cells = re.split(r"  +", line)
        assert (kind, cells[-1]) == (device["kind"], device["name"])
        assert ("auto" in cells) == device["automatic"]
        assert f"{device['profile']['memory_mb']:,} MB" in cells
    assert f"torch {torch.__version__}, triton {found['machine']['triton']}" in about
    assert result.stderr == ""
