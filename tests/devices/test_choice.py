import json
import subprocess
import sys

import pytest

from geonode.config import PrecisionParameters
from geonode.devices import choice
from geonode.devices.choice import choose, is_cpu_build
from geonode.devices.device import Device
from geonode.errors import DeviceError

DEFAULT = PrecisionParameters(training="float32", geometry="auto")

WITHOUT_TORCH = """
import json, sys
from geonode.config import PrecisionParameters
from geonode.devices import choice
from geonode.storage import integrity
from stages import inputs
choice.is_cpu_build = lambda version: True
found = choice.choose("auto", PrecisionParameters(training="float32", geometry="auto"))
print(json.dumps([found, "torch" in sys.modules]))
"""


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.13.0+cpu", True), ("2.13.0", False), ("2.13.0+cu130", False), ("2.13.0+rocm7.0", False)],
)
def test_a_build_for_cpus_says_so_in_its_version(version, expected):
    assert is_cpu_build(version) == expected


def test_such_a_build_has_no_gpu_and_is_not_imported_to_learn_that(monkeypatch):
    command = [sys.executable, "-c", WITHOUT_TORCH]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    found, imported = json.loads(result.stdout)
    assert not imported
    monkeypatch.setattr(choice, "is_cpu_build", lambda _: True)
    assert Device.from_description(found).describe() == found == choose("cpu", DEFAULT)
    with pytest.raises(DeviceError, match=r"device .cuda. is absent .* which has cpu; "):
        choose("cuda", DEFAULT)
