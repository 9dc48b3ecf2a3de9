"""Whatever a file claims, it is refused in little memory, and nothing of it runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounds import CLAIMS


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What a process with a limit of memory made of every file."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bounds", str(tmp_path_factory.mktemp("claims"))],
        cwd=Path(__file__).parents[1],
        # Every thread would set address space aside for an arena of its own.
        env=os.environ | {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    lines = map(json.loads, done.stdout.splitlines())
    return {name: found for name, *found in lines}


TYPED = {"SpectraError", "ParameterError"}
HARMLESS = {"a pickle in consolidated metadata"}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limit of memory here")
@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.slow
def test_claims_are_refused_at_once(outcomes, name):
    kind, message, ran = outcomes[name]
    assert not ran
    if name in HARMLESS:
        assert kind == "nothing"
    else:
        assert kind in TYPED, message
        assert re.search(CLAIMS[name][1], message), message
        assert len(message) < 1000
