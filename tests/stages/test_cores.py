"""Every stage writes the same bytes, whatever cores and threads it is given."""

import json
import shutil
import subprocess
import sys

import pytest

from benchmarks.chaos import ROOT, STAGES, made, make

ALL = "import runpy\n" + "\n".join(
    f"try:\n    runpy.run_module('stages.{name}', run_name='__main__')\n"
    "except SystemExit as end:\n    assert not end.code, end.code"
    for name in STAGES
)
MACHINE = "metrics/env.json"  # says how many threads there are


def run(folder, cores, threads):
    """All stages, on some cores and with some threads."""
    make(folder)
    content = json.loads((folder / "params.yaml").read_text(encoding="utf-8"))
    for block in (content["metric"], content["decoders"]):
        block |= {"epochs": 3, "checkpoint_every": 0}
    (folder / "params.yaml").write_text(json.dumps(content), encoding="utf-8")
    command = ["taskset", "-c", cores, sys.executable, "-c", ALL]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": threads}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name: value for name, value in made(folder).items() if name != MACHINE}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("taskset") is None, reason="no taskset here")
def test_every_stage_has_the_same_bytes_on_any_cores(tmp_path):
    expected = run(tmp_path / "one", "0", "1")
    assert len(expected) > len(STAGES)
    found = run(tmp_path / "two", "0,1", "3")
    assert {n for n in expected if found.get(n) != expected[n]} == set()
