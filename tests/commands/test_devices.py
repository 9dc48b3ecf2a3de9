import json
import re
import sys
from dataclasses import asdict

import torch

from geonode.compute import profile
from geonode.compute.profile import Present, Profile
from tests.commands.calling import call

PROCESSOR = Profile(3_000, 2, 2, 1_000, False, False)
CARD = Profile(4_000_000, 1, 4, 40_000, True, True)


def test_devices_are_a_table_and_a_line_about_the_machine_or_json(monkeypatch):
    two = [
        Present("cpu", "A Processor", None, False, "float32", "float64", PROCESSOR),
        Present("cuda", "A Card", 80 * 2**30, True, "float32", "float64", CARD),
    ]
    monkeypatch.setattr(profile, "present", lambda: two)
    monkeypatch.setitem(sys.modules, "triton", None)
    result = call("devices")
    assert (result.exit_code, result.stderr) == (0, "")
    _, cpu, cuda, _, about = result.stdout.splitlines()
    assert re.split(r"  +", cpu) == [
        *("cpu", "float32", "float64", "1,000 MB", "2 batches at once", "A Processor")
    ]
    assert re.split(r"  +", cuda) == [
        *("cuda", "auto", "float32", "float64", "80.0 GiB", "40,000 MB"),
        *("captured training, own kernels", "A Card"),
    ]
    assert f"torch {torch.__version__}, triton cannot be imported (import of triton halted" in about
    found = json.loads(call("devices", "--json").stdout)
    assert [device["kind"] for device in found["devices"]] == ["cpu", "cuda"]
    assert found["devices"][1]["memory_bytes"] == 80 * 2**30
    assert found["devices"][1]["profile"] == asdict(CARD)
    assert found["machine"]["torch"] == str(torch.__version__)
    assert found["machine"]["triton"].startswith("cannot be imported")
