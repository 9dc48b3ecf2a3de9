import json
import os
import platform
import re
import socket
import sys

import torch

from tests.commands.calling import call


def test_devices_are_a_table_and_a_line_about_the_machine_or_json(monkeypatch):
    """Which is told by its kind, and not whose it is."""
    for module, name in ((platform, "node"), (socket, "gethostname")):
        monkeypatch.setattr(module, name, lambda: "some-host")
    said = call("devices", "--json", status=0).stdout
    found, about = json.loads(said), json.loads(said)["machine"]
    assert "some-host" not in said
    assert about["python"] == ".".join(map(str, sys.version_info[:3]))
    assert (about["cores"], bool(about["processor"])) == (os.cpu_count(), True)
    kinds, chosen = zip(*((one["kind"], one["automatic"]) for one in found["devices"]), strict=True)
    assert (kinds[0], sum(chosen)) == ("cpu", 1)
    assert torch.__version__.startswith(about["torch"])  # a package may not name its build
    result = call("devices", status=0)
    _, *lines, _, about = result.stdout.splitlines()
    for line, device in zip(lines, found["devices"], strict=True):
        kind, *cells = re.split(r"  +", line)
        assert (kind, cells[-1]) == (device["kind"], device["name"])
        assert ("auto" in cells) == device["automatic"]
        assert f"{device['profile']['memory_mb']:,} MB" in cells
    assert f"torch {found['machine']['torch']}, triton {found['machine']['triton']}" in about
    assert result.stderr == ""
