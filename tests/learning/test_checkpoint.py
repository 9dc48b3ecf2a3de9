import numpy as np
import pytest
import torch

from geonode.compute import profile
from geonode.compute.device import Device
from geonode.errors import ArtifactError, CorruptArtifactError, TrainingError
from geonode.learning.checkpoint import open_checkpoints
from geonode.learning.context import TrainingRun
from geonode.learning.folds import leave_one_out, leave_two_out
from geonode.progress import silent
from tests.learning.series import decoder_parameters, run, trained_decoders, trained_metrics
from tests.storage.damage import flip

LEVELS, EPOCHS = 4, 12
MODELS = 2 * (LEVELS + 1)
LARGEST_BATCH = 5  # models
FOLDS = leave_one_out(LEVELS)
PARAMETERS = {"members": 2, "epochs": EPOCHS, "checkpoint_every": 5}


def fit(trained, scratch, report=silent, **changes):
    models = run(LEVELS, PARAMETERS["members"], scratch=scratch, report=report)
    return trained(models, **(PARAMETERS | changes))


class StoppedError(Exception):
    """In place of a user who interrupts."""


def interrupt(trained, scratch, steps):
    """Raise once this many steps of one model are done."""
    done = []

    def report(count):
        done.append(count)
        if sum(done) >= steps:
            raise StoppedError

    with pytest.raises(StoppedError):
        fit(trained, scratch, report)


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """Batches of a few models, one after the other, so that an interruption finds all kinds."""
    monkeypatch.setattr(profile, "CPU_BATCH_ROWS", 150)
    monkeypatch.setattr(profile, "usable_cores", lambda: 1)


@pytest.fixture
def scratch(tmp_path):
    return tmp_path / "scratch" / "training"


def one_after_the_other(models, **changes):
    """Two trainings of one artifact, such as those of the folds and of the inner folds."""
    parts = [trained_metrics(models.of_kind(kind), **changes) for kind in ("outer", "inner")]
    return [*parts[0], *parts[1]]


@pytest.mark.parametrize(
    ("trained", "steps"),
    [
        (trained_metrics, 28),
        (trained_decoders, 1),
        (trained_decoders, EPOCHS * MODELS),
        (one_after_the_other, EPOCHS * MODELS + 28),
    ],
)
def test_an_interrupted_training_ends_in_the_same_bits(trained, scratch, steps):
    interrupt(trained, scratch, steps)
    reports = []
    # how often a checkpoint is written may change
    found = fit(trained, scratch, reports.append, checkpoint_every=4)
    assert all(map(torch.equal, found, fit(trained, None, checkpoint_every=0)))
    assert sum(reports) == EPOCHS * MODELS * (2 if trained is one_after_the_other else 1)
    # What was done is not done again: a step is reported at a time, what is taken up at once.
    assert (reports[0] > LARGEST_BATCH) == (steps > 1)


def test_a_flipped_byte_is_refused_and_its_batch_is_trained_anew_without_it(scratch):
    interrupt(trained_decoders, scratch, EPOCHS * MODELS)
    (newest,) = scratch.glob("member0-fold0-to-*.safetensors")
    flip(newest)
    with pytest.raises(CorruptArtifactError, match=r"safetensors: the file fails its"):
        fit(trained_decoders, scratch)
    newest.unlink()
    assert all(map(torch.equal, fit(trained_decoders, scratch), fit(trained_decoders, None)))


# the files


def opened(folder, data=(1.0, 2.0), kind="cpu", dtype=torch.float32, folds=FOLDS, **changes):
    block = decoder_parameters(**({"checkpoint_every": 1} | changes))
    device = Device(kind, "test", dtype, torch.float64)
    return open_checkpoints(
        block, TrainingRun(folds, 2, device, folder), [np.array(data), np.zeros((2, 3))]
    )


def saved(folder):
    kept = opened(folder).of_batch("batch")
    kept.save({"value": torch.ones(2)})


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"seed": 1}, "seed 0, expected seed 1;"),
        ({"gradient_clip": 1 + 2**-52}, r"gradient_clip 1.0, expected gradient_clip 1.0{15}2;"),
        ({"data": (1.0, 2 + 2**-51)}, "data .*, expected data "),
        ({"data": ((1.0, 2.0),)}, "data .*, expected data "),
        ({"data": np.array((1, 2), np.float32)}, "data .*, expected data "),
        ({"folds": leave_two_out(LEVELS, None)}, r"models 2 of .*, expected .*\(0, 1\)"),
        ({"kind": "cuda"}, "device cpu, expected device cuda;"),
        ({"dtype": torch.float64}, "format float32, expected format float64;"),
    ],
)
def test_whatever_decides_the_result_is_told_apart(tmp_path, changes, cause):
    saved(tmp_path)
    assert opened(tmp_path, checkpoint_every=7) is not None
    with pytest.raises(TrainingError, match=rf"batch.*with {cause}.* remove {tmp_path} to start"):
        opened(tmp_path, **changes)


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "scratch").write_text("mine", encoding="utf-8")
    with pytest.raises(ArtifactError, match="cannot be written"):
        saved(tmp_path / "scratch")
    assert (tmp_path / "scratch").read_text(encoding="utf-8") == "mine"
