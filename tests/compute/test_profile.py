import pytest
import torch

from geonode.compute.device import resolve
from geonode.compute.kernels import available
from geonode.compute.profile import present, profile_of
from geonode.config import PrecisionParameters

OLD, NEW = ("Old", 10**9, (7, 5)), ("New", 16 * 10**9, (8, 0))


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(("index", "memory_mb", "new"), [(None, 500, False), (1, 8_000, True)])
def test_a_card_lends_half_of_its_memory_and_newer_ones_run_kernels(
    computer, monkeypatch, installed, index, memory_mb, new
):
    computer(OLD, NEW)
    monkeypatch.setattr(available, "find_spec", lambda name: object() if installed else None)
    found = profile_of(torch.device("cuda", index))
    assert (found.memory_mb, found.batches, found.tiles) == (memory_mb, 1, 4)
    assert found.batch_rows == 4_000_000
    assert found.captured
    assert found.kernels == (installed and new)


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
    computer, cards, mps, expected, automatic
):
    computer(*cards, mps=mps)
    found = present()
    assert [(d.kind, d.memory_bytes, d.training, d.geometry) for d in found] == expected
    assert [d.automatic for d in found] == [place == automatic for place in range(len(found))]
    assert [device.name for device in found][1:] in ([card[0] for card in cards], [found[-1].name])
    assert found[0].profile == profile_of(torch.device("cpu"))
    chosen = resolve("auto", PrecisionParameters(training="float32", geometry="auto"))
    assert (chosen.kind, chosen.place.type) == (expected[automatic][0],) * 2
