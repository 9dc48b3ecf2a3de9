import json
import os
import platform
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from geonode.config import PrecisionParameters
from geonode.devices.device import Device, environment, one_thread, resolve
from geonode.errors import DeviceError


def precision(training="float32", geometry="auto"):
    return PrecisionParameters(training=training, geometry=geometry)


@pytest.fixture
def machine(monkeypatch):
    """Pretend to be a machine with some devices."""

    def has(*kinds):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A Card")
        card = SimpleNamespace(total_memory=80 * 10**9, major=8)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda place: card)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: (8, 0))
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)

    return has


@pytest.mark.parametrize(
    ("present", "expected"),
    [((), "cpu"), (("mps",), "mps"), (("cuda",), "cuda"), (("cuda", "mps"), "cuda")],
)
def test_auto_takes_cuda_then_mps_then_cpu(machine, present, expected):
    machine(*present)
    device = resolve("auto", precision())
    assert device.kind == expected
    assert device.place == torch.device(expected)


@pytest.mark.parametrize("kind", ["cpu", "cuda", "mps"])
def test_a_named_device_is_taken_whatever_else_is_there(machine, kind):
    machine("cuda", "mps")
    assert resolve(kind, precision()).kind == kind


@pytest.mark.parametrize(
    ("wanted", "present", "listed"),
    [
        ("cuda", (), "cpu"),
        ("mps", (), "cpu"),
        ("cuda", ("mps",), "cpu, mps"),
        ("mps", ("cuda",), "cpu, cuda"),
    ],
)
def test_an_absent_device_is_an_error_that_says_what_is_present(machine, wanted, present, listed):
    machine(*present)
    message = f"device '{wanted}' is absent on this machine, which has {listed}; .*auto"
    with pytest.raises(DeviceError, match=message):
        resolve(wanted, precision())


@pytest.mark.parametrize(
    ("kind", "geometry", "expected"),
    [
        ("cpu", "auto", torch.float64),
        ("cuda", "auto", torch.float64),
        ("mps", "auto", torch.float32),
        ("cpu", "float32", torch.float32),
        ("cuda", "float64", torch.float64),
        ("mps", "float32", torch.float32),
    ],
)
def test_format_of_the_geometry(machine, kind, geometry, expected):
    machine("cuda", "mps")
    device = resolve(kind, precision(geometry=geometry))
    assert (device.training, device.geometry) == (torch.float32, expected)


@pytest.mark.parametrize("training", ["float32", "float64"])
def test_format_of_the_training(machine, training):
    machine("cuda")
    assert resolve("cuda", precision(training)).training == getattr(torch, training)


@pytest.mark.parametrize(("training", "geometry"), [("float64", "auto"), ("float32", "float64")])
@pytest.mark.parametrize("wanted", ["mps", "auto"])
def test_mps_has_no_float64(machine, wanted, training, geometry):
    machine("mps")
    with pytest.raises(DeviceError, match=r"mps has no float64: set precision\.training and"):
        resolve(wanted, precision(training, geometry))


def test_reference_values_are_computed_where_float64_is(machine):
    machine("cuda", "mps")
    places = {kind: resolve(kind, precision()).reference.type for kind in ("cpu", "cuda", "mps")}
    assert places == {"cpu": "cpu", "cuda": "cuda", "mps": "cpu"}


@pytest.mark.parametrize("kind", ["cpu", "cuda", "mps"])
def test_a_description_gives_the_device_back(machine, kind):
    machine("cuda", "mps")
    device = resolve(kind, precision())
    description = device.describe()
    assert description["device"] == kind
    assert description["training"] == "float32"
    assert Device.from_description(json.loads(json.dumps(description))) == device


@pytest.mark.parametrize(
    ("kind", "given", "budget"),
    [("cpu", None, 10**9), ("cuda", None, 40 * 10**9), ("mps", None, 2 * 10**9), ("cuda", 7, 7e6)],
)
def test_memory_is_what_is_given_and_otherwise_suits_the_device(machine, kind, given, budget):
    machine("cuda", "mps")
    device = resolve(kind, precision(), given)
    assert device.budget == budget
    assert device.describe() == resolve(kind, precision()).describe()
    again = Device.from_description(json.loads(json.dumps(device.describe())), given)
    assert (again, again.budget) == (device, budget)


def test_a_description_from_a_machine_with_another_device_is_refused(machine):
    machine("cuda")
    description = resolve("cuda", precision()).describe()
    assert description["name"] == "A Card"
    machine("mps")
    with pytest.raises(DeviceError, match=r"device 'cuda' is absent .* which has cpu, mps"):
        Device.from_description(description)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_synchronise_waits_for_the_device(machine, monkeypatch, kind):
    machine("cuda", "mps")
    waited = []
    for name in ("cuda", "mps"):
        monkeypatch.setattr(
            getattr(torch, name), "synchronize", lambda name=name: waited.append(name)
        )
    resolve(kind, precision()).synchronise()
    assert waited == [kind]


def test_the_environment_says_what_a_timing_depends_on_and_not_whose_machine_it_is(monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "some-host")
    monkeypatch.setattr(socket, "gethostname", lambda: "some-host")
    found = environment(resolve("cpu", precision()))
    assert set(found) == {
        "device",
        "name",
        "training",
        "geometry",
        "processor",
        "cores",
        "threads",
        "system",
        "python",
        "torch",
    }
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert (found["cores"], found["threads"]) == (os.cpu_count(), torch.get_num_threads())
    assert found["torch"] == torch.__version__
    assert found["name"] == found["processor"] != ""
    assert "some-host" not in json.dumps(found)
    # The same machine gives the same bytes: nothing that changes from run to run, such as a date.
    assert json.dumps(environment(resolve("cpu", precision()))) == json.dumps(found)


def test_one_thread_and_back():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread(), ThreadPoolExecutor(1) as other:
            assert torch.get_num_threads() == 1
            assert other.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(ArithmeticError), one_thread():
            raise ArithmeticError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
