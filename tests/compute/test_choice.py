import ctypes
import json
import subprocess
import sys

import pytest
import torch

from geonode.compute import choice, driver
from geonode.compute.choice import choose, torch_build
from geonode.compute.device import Device
from geonode.compute.driver import first_card
from geonode.config import PrecisionParameters
from geonode.errors import DeviceError

DEFAULT = PrecisionParameters(training="float32", geometry="auto")

WITHOUT_TORCH = """
import json, sys
from geonode.config import PrecisionParameters
from geonode.compute import choice
from geonode.storage import integrity
from stages import inputs
choice._APPLE = False
found = choice.choose("auto", PrecisionParameters(training="float32", geometry="auto"))
print(json.dumps([found, "torch" in sys.modules]))
"""


class Driver:
    """Library of a driver, as ctypes loads it."""

    def __init__(self, status=0, version=13000, cards=("A Card", "B Card")):
        self.status, self.version, self.cards = status, version, cards

    def cuInit(self, flags):  # noqa: N802 - its name
        return self.status

    def cuDriverGetVersion(self, version):  # noqa: N802
        version._obj.value = self.version
        return 0

    def cuDeviceGetCount(self, count):  # noqa: N802
        count._obj.value = len(self.cards)
        return 0

    def cuDeviceGet(self, place, index):  # noqa: N802
        place._obj.value = 7 + index
        return 0

    def cuDeviceGetName(self, name, size, place):  # noqa: N802
        assert size == ctypes.sizeof(name)
        name.value = self.cards[place.value - 7].encode()
        return 0


@pytest.mark.parametrize(
    ("found", "cuda", "expected", "told"),
    [
        (Driver(), "13.0", "A Card", ""),
        (Driver(version=13010), "12.8", "A Card", ""),
        (Driver(version=13000), "13.2", "A Card", ""),
        (Driver(version=12090), "13.0", None, "supports CUDA 12.9, torch needs 13.0"),
        (Driver(status=803), "13.0", None, "error 803"),
        (Driver(status=100), "13.0", None, ""),
        (Driver(cards=()), "13.0", None, ""),
    ],
)
def test_a_card_is_named_where_the_driver_is_new_enough(
    monkeypatch, caplog, found, cuda, expected, told
):
    monkeypatch.setattr(driver, "CDLL", lambda name: found)
    assert first_card(cuda) == expected
    assert (told in caplog.text) if told else not caplog.records


def test_there_is_no_card_without_a_driver(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "no-such-library")
    assert first_card("13.0") is None


@pytest.mark.parametrize(
    ("cuda", "hip", "expected"), [("13.0", None, "of 13.0"), (None, None, None)]
)
def test_a_build_for_cpus_has_no_card(monkeypatch, cuda, hip, expected):
    monkeypatch.setattr(choice, "torch_build", lambda: {"cuda": cuda, "hip": hip})
    monkeypatch.setattr(choice, "first_card", "of {}".format)
    assert choice._card() == expected


def test_cards_of_amd_are_looked_for_by_torch(monkeypatch):
    monkeypatch.setattr(choice, "torch_build", lambda: {"cuda": None, "hip": "7.0"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "C Card")
    assert choose("auto", DEFAULT)["name"] == "C Card"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choice._card() is None


def test_what_is_found_is_what_torch_finds():
    found = torch_build()
    assert (found["cuda"], found["hip"]) == (torch.version.cuda, torch.version.hip)
    available = torch.cuda.is_available()
    assert choice._card() == (torch.cuda.get_device_name() if available else None)


def test_torch_is_not_imported_to_choose_a_device():
    command = [sys.executable, "-c", WITHOUT_TORCH]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    found, imported = json.loads(result.stdout)
    assert not imported
    assert Device.from_description(found).describe() == found == choose("auto", DEFAULT)


def test_an_absent_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(choice, "_card", lambda: None)
    monkeypatch.setattr(choice, "_APPLE", False)
    with pytest.raises(DeviceError, match=r"device .cuda. is absent .* which has cpu; "):
        choose("cuda", DEFAULT)
