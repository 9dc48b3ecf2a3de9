import importlib
import os
from types import SimpleNamespace

import pytest
import torch

from geonode.compute import present as module
from geonode.compute.present import Present, present
from geonode.compute.profile import profile_of

CARDS = (("First", 10, (8, 0)), ("Second", 20, (8, 0)))
CPU = ("cpu", None, "float32", "float64")


@pytest.mark.parametrize(
    ("cards", "mps", "expected", "automatic"),
    [
        ((), False, [CPU], 0),
        (CARDS, False, [CPU, *(("cuda", size, "float32", "float64") for size in (10, 20))], 1),
        ((), True, [CPU, ("mps", None, "float32", "float32")], 1),
    ],
)
def test_every_device_is_listed_and_auto_takes_the_first_accelerator(
    machine, cards, mps, expected, automatic
):
    machine(*cards, mps=mps)
    found = present()
    assert [(d.kind, d.memory_bytes, d.training, d.geometry) for d in found] == expected
    assert [d.automatic for d in found] == [place == automatic for place in range(len(found))]
    assert [device.name for device in found][1:] in ([card[0] for card in cards], [found[-1].name])
    processor = profile_of(torch.device("cpu"))
    name = found[0].name
    assert found[0] == Present("cpu", name, None, not automatic, "float32", "float64", processor)


@pytest.mark.parametrize("version", ["3.9.1", None])
def test_the_machine_and_whether_triton_can_be_imported(monkeypatch, version):
    def load(name):
        assert name == "triton"
        if version is None:
            raise ModuleNotFoundError(name)
        return SimpleNamespace(__version__=version)

    monkeypatch.setattr(importlib, "import_module", load)
    found = module.machine()
    assert found["triton"] == version
    assert (found["cores"], found["threads"]) == (os.cpu_count(), torch.get_num_threads())
    assert str(torch.__version__).startswith(found["torch"])  # without or with a local label
    assert found["processor"] and found["system"] and found["python"]
