import importlib
import os
from types import SimpleNamespace

import pytest
import torch

from geonode.devices.present import Present, machine, present
from geonode.devices.profile import profile_of


@pytest.fixture
def has(monkeypatch):
    """Pretend to be a machine with some cards, and perhaps mps."""

    def pretend(*cards, mps=False):
        properties = [
            SimpleNamespace(name=name, total_memory=size, major=8) for name, size in cards
        ]
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(cards))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: cards[0][0])
        monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: (8, 0))
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


def summary(devices):
    return [(d.kind, d.memory_bytes, d.automatic, d.training, d.geometry) for d in devices]


def test_a_processor_alone_is_what_auto_takes(has):
    has()
    [found] = present()
    assert found == Present(
        "cpu", found.name, None, True, "float32", "float64", profile_of(torch.device("cpu"))
    )
    assert found.name


def test_every_card_is_listed_and_auto_takes_the_first(has):
    has(("First", 10), ("Second", 20))
    assert [device.name for device in present()][1:] == ["First", "Second"]
    assert summary(present()) == [
        ("cpu", None, False, "float32", "float64"),
        ("cuda", 10, True, "float32", "float64"),
        ("cuda", 20, False, "float32", "float64"),
    ]


def test_mps_computes_geometry_in_float32(has):
    has(mps=True)
    assert summary(present()) == [
        ("cpu", None, False, "float32", "float64"),
        ("mps", None, True, "float32", "float32"),
    ]


@pytest.mark.parametrize("version", ["3.9.1", None])
def test_the_machine_and_whether_triton_can_be_imported(monkeypatch, version):
    def load(name):
        assert name == "triton"
        if version is None:
            raise ModuleNotFoundError(name)
        return SimpleNamespace(__version__=version)

    monkeypatch.setattr(importlib, "import_module", load)
    found = machine()
    assert found["triton"] == version
    assert (found["cores"], found["torch"]) == (os.cpu_count(), str(torch.__version__))
    assert set(found) == {
        "processor",
        "cores",
        "threads",
        "system",
        "python",
        "torch",
        "triton",
    }
