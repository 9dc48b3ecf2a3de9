"""Whatever a calibration file holds, it estimates finite numbers or is refused in one line.

`python -m tests.calibration.test_hostile FILE COUNT FOLDER` changes what is in a file at random,
seals it again, estimates by it in little memory, and prints what is neither.
"""

import copy
import json
import resource
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from geonode.calibration.results import result_tables
from geonode.calibration.routine import Routine
from geonode.calibration.saved import load_calibration, save_calibration
from geonode.errors import GeonodeError
from geonode.spectra.common_axis import interpolated
from geonode.spectra.table import Spectra
from geonode.storage.weights import read_weights, write_weights

ROOT = Path(__file__).parents[2]
MEMORY = 2**28  # bytes beside what the intact file takes

OTHERS = [
    *(None, True, -1, 0, 3, 10**12, 10**400, 1e-300, 1e308, float("nan"), float("inf"), "\x1b[31m"),
    *([], {}, ["a"] * 3, {"list": {}}, {"dict": {}}, {"tuple": {"0": 1.0}}, {"Path": {}}),
    *(
        {"values": [1.0], "shape": [1]},
        {"values": [], "shape": [0, 10**9]},
        {"Tensor": {"data": 1}},
    ),
    *({"values": ["a"], "type": "S2000000000", "shape": [1]}, {"values": [10**400], "shape": [1]}),
]
TENSORS = [
    *(lambda one: one * 0, lambda one: one[:1], lambda one: one.flatten(), lambda one: one.T),
    *(lambda one: one.float(), lambda one: one.bfloat16(), lambda one: one.double() * 1e300),
    *(lambda one: one - one.double().mean(), lambda one: torch.full_like(one, 10**6)),
]


def places(value):
    """Every dictionary of a document, with each of its keys."""
    for key, one in value.items() if isinstance(value, dict) else ():
        yield value, key
        yield from places(one)


def change(random, content, tensors):
    """Change a document or its tensors somewhere."""
    (within, key), (other, another) = random.choice([*places(content)], 2)
    match random.integers(7):
        case 0:
            within[key + "x"] = within.pop(key)
        case 1:
            within[key] = copy.deepcopy(other[another])
        case 2 | 3:
            name = random.choice(sorted(tensors))  # as read they stand in any order
            tensors[name] = TENSORS[random.integers(len(TENSORS))](tensors[name].contiguous())
        case 4 | 5 if isinstance(within[key], float | int):
            within[key] = type(within[key])(random.choice([-1e300, -2, 0, 0.5, 2, 1e9, 1e300]))
        case _:
            within[key] = copy.deepcopy(OTHERS[random.integers(len(OTHERS))])


def estimated(path):
    """Estimates by a file as the command makes them, on its own axis and another one.

    None if it is refused in one line.
    """
    try:
        file = load_calibration(path)
        series = file.series
        finer = np.linspace(series.axis[0], series.axis[-1], 2 * len(series.axis) - 1)
        spectra = {
            path / name: Spectra(["a", "b"], axis, "", "1", values, np.empty(0))
            for name, axis, values in (
                ("own", series.axis, series.signal[:2]),
                ("finer", finer, interpolated(series.axis, series.signal[:2], finer)),
            )
        }
        used = Routine(spectra, {}, None, None, {}, False, {}, {}).used(file)
        assert "\x1b" not in str([used.method, used.model.sentence, *map(str, result_tables(used))])
        return np.array([one.numbers for _, found in used.unknowns for one in found])
    except GeonodeError as error:
        assert "\n" not in str(error)
        return None


def main(path, count, folder):
    warnings.simplefilter("ignore")
    estimated(path)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, resource.RLIM_INFINITY))
    intact, metadata = read_weights(path)
    refused = 0
    for seed in range(count):
        random = np.random.default_rng(seed)
        content, tensors = json.loads(metadata["calibration"]), dict(intact)
        try:
            for _ in range(random.integers(1, 4)):
                change(random, content, tensors)
            changed = metadata | {"calibration": json.dumps(content)}
            write_weights(folder / "changed.safetensors", tensors, changed)
        except (GeonodeError, RuntimeError, IndexError):
            continue  # it cannot be written
        try:
            found = estimated(folder / "changed.safetensors")
            refused += found is None
            assert found is None or (np.isfinite(found[..., 0]).all() and not np.isnan(found).any())
        except Exception:
            sys.stdout.write(f"{seed}: {traceback.format_exc()}\n")
    sys.stdout.write(f"{refused} of {count} refused\n")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limit of memory here")
@pytest.mark.parametrize(("kind", "count"), [("calibration", 100), ("mixture", 50)])
@pytest.mark.slow
def test_changed_contents_estimate_or_are_refused(request, tmp_path, kind, count):
    made = request.getfixturevalue(kind)
    save_calibration(tmp_path / "intact.safetensors", made)
    words = [str(tmp_path / "intact.safetensors"), str(count), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.calibration.test_hostile", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("\n") == 1, done.stdout  # else there are tracebacks
    refused, _, total, _ = done.stdout.split()
    assert int(total) / 2 < int(refused) < int(total)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
