import json

import pytest
import torch
from typer.testing import CliRunner

from geonode import cli
from geonode.devices import present


@pytest.fixture(autouse=True)
def two_devices(monkeypatch):
    found = [
        present.Present("cpu", "A Processor", None, False, "float32", "float64"),
        present.Present("cuda", "A Card", 80 * 2**30, True, "float32", "float64"),
    ]
    monkeypatch.setattr(present, "present", lambda: found)
    monkeypatch.setattr(present, "_triton", lambda: None)


def call(*arguments):
    return CliRunner().invoke(cli.app, ["devices", *arguments])


def test_devices_are_a_table_and_a_line_about_the_machine():
    result = call()
    assert (result.exit_code, result.stderr) == (0, "")
    _, cpu, cuda, _, about = result.stdout.splitlines()
    assert cpu.split() == ["cpu", "float32", "float64", "A", "Processor"]
    assert cuda.split() == ["cuda", "auto", "float32", "float64", "80.0", "GiB", "A", "Card"]
    assert f"torch {torch.__version__}, triton cannot be imported" in about


def test_devices_as_json():
    found = json.loads(call("--json").stdout)
    assert [device["kind"] for device in found["devices"]] == ["cpu", "cuda"]
    assert found["devices"][1] == {
        "kind": "cuda",
        "name": "A Card",
        "memory_bytes": 80 * 2**30,
        "automatic": True,
        "training": "float32",
        "geometry": "float64",
    }
    assert found["machine"]["torch"] == str(torch.__version__)
    assert found["machine"]["triton"] is None
