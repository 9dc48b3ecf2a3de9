import pytest
import torch

from geonode.compute.kernels import available
from geonode.compute.profile import Present, present, profile_of

OLD, SMALL, LARGE = (
    ("Old", 10**9, (7, 5)),
    ("Small", 16 * 10**9, (8, 0)),
    ("Large", 143 * 10**9, (9, 0)),
)


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(
    ("index", "memory_mb", "new"),
    [(None, 500, False), (0, 500, False), (1, 8_000, True), (2, 71_500, True)],
)
def test_a_card_lends_half_of_its_memory_and_newer_ones_run_kernels(
    computer, monkeypatch, installed, index, memory_mb, new
):
    computer(OLD, SMALL, LARGE)
    monkeypatch.setattr(available, "find_spec", lambda name: object() if installed else None)
    found = profile_of(torch.device("cuda", index) if index is not None else torch.device("cuda"))
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
    processor = profile_of(torch.device("cpu"))
    name = found[0].name
    assert found[0] == Present("cpu", name, None, not automatic, "float32", "float64", processor)
