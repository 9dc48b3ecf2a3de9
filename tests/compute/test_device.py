import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from geonode.compute import choice
from geonode.compute.choice import choose
from geonode.compute.device import Device, all_alike, resolve
from geonode.config import PrecisionParameters
from geonode.errors import DeviceError
from geonode.storage.document import write_json

CARD = ("A Card", 80 * 10**9, (8, 0))


def precision(training="float32", geometry="auto"):
    return PrecisionParameters(training=training, geometry=geometry)


@pytest.mark.parametrize(
    ("kind", "given", "expected", "products"),
    [
        ("cpu", ("float32", "auto"), ("float32", "float64"), "float32"),
        ("cuda", ("float64", "auto"), ("float64", "float64"), "float64"),
        ("mps", ("float32", "auto"), ("float32", "float32"), "float32"),
        ("cuda", ("tf32", "float32"), ("float32", "float32"), "float32"),
        ("mps", ("bfloat16", "float32"), ("float32", "float32"), "bfloat16"),
    ],
)
def test_formats_of_training_geometry_and_products(computer, kind, given, expected, products):
    computer(CARD, mps=True)
    device = resolve(kind, precision(*given))
    assert (device.training, device.geometry) == tuple(getattr(torch, name) for name in expected)
    assert device.products == getattr(torch, products)
    assert device.describe()["training"] == given[0]
    assert device.reference.type == ("cuda" if kind == "cuda" else "cpu")  # has float64


@pytest.mark.parametrize(
    ("wanted", "given", "message"),
    [
        ("cuda", ("float32", "auto"), "device 'cuda' is absent on .* which has cpu, mps; .*auto"),
        ("mps", ("float64", "auto"), r"mps has no float64: set precision\.training and"),
        ("auto", ("float32", "float64"), r"mps has no float64: set precision\.training and"),
        ("cpu", ("tf32", "auto"), r"cpu has no tf32: set precision\.training to float32"),
    ],
)
def test_devices_and_formats_that_are_not_there_are_refused(computer, wanted, given, message):
    computer(mps=True)
    with pytest.raises(DeviceError, match=message):
        resolve(wanted, precision(*given))


@pytest.mark.parametrize(
    ("kind", "given", "budget"),
    [("cpu", None, 10**9), ("cuda", None, 40 * 10**9), ("mps", None, 2 * 10**9), ("cuda", 7, 7e6)],
)
def test_memory_is_what_is_given_and_otherwise_suits_the_device(computer, kind, given, budget):
    computer(CARD, mps=True)
    device = resolve(kind, precision(), given)
    assert device.budget == budget
    assert (device.name == "A Card") == (kind == "cuda")
    assert device.shared(2).budget == budget // 2 // 10**6 * 10**6
    assert device.describe() == resolve(kind, precision()).describe()


def test_a_file_gives_the_device_back_with_the_name_that_was_found(tmp_path):
    described = {"device": "cpu", "name": "Other", "training": "bfloat16", "geometry": "float64"}
    write_json(tmp_path / "device.json", described)
    assert Device.read(tmp_path / "device.json").describe() == described


def test_cards_of_the_kind_of_the_first_compute_alike(computer):
    computer(CARD, ("Another Card", *CARD[1:]), CARD)
    assert all_alike(torch.device("cuda")) == [torch.device("cuda:0"), torch.device("cuda:2")]
    assert all_alike(torch.device("cpu")) == [torch.device("cpu")]


def test_a_card_is_what_torch_finds_and_looked_for_without_torch():
    code = (
        "import json, sys\n"
        "from geonode.compute import choice\n"
        "print(json.dumps([choice.first_card(), 'torch' in sys.modules]))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    expected = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    assert json.loads(result.stdout) == [expected, choice.AMD.exists()]


@pytest.mark.parametrize(
    ("cards", "needed", "expected"),
    [(2, "12.8", "B Card"), (0, "12.8", None), (2, "13.0", None), (2, None, None)],
)
def test_a_card_is_that_of_a_driver_as_new_as_torch_needs(monkeypatch, cards, needed, expected):
    def answer(place, value):
        place.value = value
        return 0

    driver = SimpleNamespace(
        cuInit=lambda _: 0,
        cuDeviceGetCount=lambda place: answer(place._obj, cards),
        cuDriverGetVersion=lambda place: answer(place._obj, 12040),
        cuDeviceGetName=lambda place, size, _: answer(place, b"B Card"[:size]),
    )
    monkeypatch.setattr(choice, "CDLL", lambda _: driver)
    monkeypatch.setattr(choice, "run_path", lambda _: {"cuda": needed})
    assert choice.first_card() == expected


def test_a_card_that_torch_does_not_start_is_an_error_that_says_what_to_do(computer, monkeypatch):
    computer(CARD)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"A Card, which torch .* set device to cpu"):
        resolve("auto", precision())


def test_a_driver_of_amd_is_enough_to_ask_torch(monkeypatch, tmp_path):
    (tmp_path / "kfd").touch()
    monkeypatch.setattr(choice, "AMD", tmp_path / "kfd")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "C Card")
    assert choose("auto", precision())["name"] == "C Card"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose("auto", precision())["device"] == "cpu"
