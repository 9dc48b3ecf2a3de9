import json
import os
import platform
import socket
import sys

import torch

from geonode.machine import processor_and_versions


def test_the_conditions_of_a_timing_and_not_whose_machine_it_is(monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "some-host")
    monkeypatch.setattr(socket, "gethostname", lambda: "some-host")
    found = processor_and_versions()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["cores"] == os.cpu_count()
    assert torch.__version__.startswith(found["torch"])  # a package may not name its build
    assert found["processor"] != ""
    assert "some-host" not in json.dumps(found)
    # The same machine gives the same bytes: nothing that changes from run to run, such as a date.
    assert json.dumps(processor_and_versions()) == json.dumps(found)
