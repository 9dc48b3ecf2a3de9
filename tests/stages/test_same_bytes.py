"""Every stage writes the same bytes, on any cores, by any engine, and when it was killed before."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from geonode.parameters_file import parse_yaml
from stages.paths import CHECKPOINTS, PIPELINE, RECORDS
from tests.stages.conftest import ROOT

STAGES = (*PIPELINE, "report")
"""All but `benchmark`, whose numbers are times."""

SMALL = {
    "generate": {
        "concentrations": [0, 10, 20, 40],
        "wavelengths": {"start": 200.0, "stop": 800.0, "step": 20.0},
    },
    "inner": {"members": 1},
    "metric": {"members": 1, "epochs": 30, "wavelengths": 8, "checkpoint_every": 1},
    "christoffel": {"resolution": 100},
    "geodesics": {"time_points": 3},
    "decoders": {"members": 1, "epochs": 80, "wavelengths": 8, "checkpoint_every": 1},
}
"""Parameters of a run of some seconds that writes a checkpoint in every epoch."""

KILLED = ("spectra", "metric", "geodesics", "decoders")
"""Stages of every kind: a folder of arrays at once and by parts, trainings."""

ALL = "import runpy\n" + "\n".join(
    f"try:\n    runpy.run_module('stages.{name}', run_name='__main__')\n"
    "except SystemExit as end:\n    assert not end.code, end.code"
    for name in STAGES
)


def make(folder, engine="local", **changes):
    """A small project: code, pipeline and parameters."""
    (folder / "data").mkdir(parents=True)
    for name in ("dvc.yaml", "data/concentrations.csv"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("stages", "geonode"):
        shutil.copytree(ROOT / name, folder / name)
    content = parse_yaml((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for block, values in SMALL.items():
        content[block] |= values
    for block in ("metric", "decoders"):
        content[block] |= changes
    content["engine"]["kind"] = engine
    (folder / "params.yaml").write_text(json.dumps(content), encoding="utf-8")


def made(folder, *paths):
    """SHA-256 of every file below some paths but the records of time and memory."""
    files = (file for path in paths for file in (folder / path, *(folder / path).rglob("*")))
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.is_file()
        and not (name := file.relative_to(folder).as_posix()).startswith(RECORDS.as_posix())
    }


def run(folder, cores, threads, engine="local"):
    """All stages, on some cores and with some threads."""
    make(folder, engine, epochs=3, checkpoint_every=0)
    command = ["taskset", "-c", cores, sys.executable, "-c", ALL]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": threads}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return made(folder, "data", "metrics")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("taskset") is None, reason="no taskset here")
def test_every_stage_has_the_same_bytes_on_any_cores_and_by_any_engine(tmp_path):
    expected = run(tmp_path / "one", "0", "1")
    for path in (path for name in STAGES for path in outputs_of(name)):
        assert any(name.startswith(path) for name in expected), path  # so dvc.lock is the same
    for engine in ("local", "dask"):
        found = run(tmp_path / engine, "0,1", "3", engine)
        assert {n for n in expected if found.get(n) != expected[n]} == set()


def outputs_of(name):
    """Paths of what a stage writes."""
    stage = parse_yaml((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"][name]
    outs = [out for kind in ("outs", "metrics", "plots") for out in stage.get(kind, ())]
    return [out if isinstance(out, str) else next(iter(out)) for out in outs]


def start(folder, name):
    """A stage in a process of its own, and its workers in its group."""
    return subprocess.Popen(
        [sys.executable, "-m", f"stages.{name}", "--log-level", "info"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(folder, name):
    """What a stage says that runs to its end."""
    process = start(folder, name)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    return said


@pytest.mark.slow
def test_a_killed_stage_leaves_whole_outputs_or_none_and_the_next_run_writes_the_same(tmp_path):
    folder, moment = tmp_path / "project", random.Random(0)
    make(folder)
    for name in STAGES[: STAGES.index("validate")]:
        began = time.perf_counter()
        finish(folder, name)
        if name not in KILLED:
            continue
        seconds = time.perf_counter() - began
        whole = {path: made(folder, path) for path in outputs_of(name)}
        for path in whole:  # as DVC does before it runs a stage
            shutil.rmtree(folder / path, ignore_errors=True)
            (folder / path).unlink(missing_ok=True)
        process = start(folder, name)
        checkpoints, trains = folder / CHECKPOINTS / name, "checkpoint_every" in SMALL.get(name, ())
        while trains and process.poll() is None and not any(checkpoints.rglob("*.safetensors")):
            time.sleep(0.005)
        time.sleep(0 if trains else moment.uniform(0.5, 1) * seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        for path, expected in whole.items():
            assert made(folder, path) in ({}, expected), path
        said = finish(folder, name)
        assert {path: made(folder, path) for path in whole} == whole
        assert not checkpoints.exists()
        assert not trains or "training goes on after epoch" in said
