import compileall
import json
import os
import platform
import socket
import sys

import pytest
import torch

from geonode.machine import compiled_anew, machine, one_core


def test_the_conditions_of_a_timing_and_not_whose_machine_it_is(monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "some-host")
    monkeypatch.setattr(socket, "gethostname", lambda: "some-host")
    found = machine()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["cores"] == os.cpu_count()
    assert torch.__version__.startswith(found["torch"])  # a package may not name its build
    assert found["processor"] != ""
    assert "some-host" not in json.dumps(found)
    # The same machine gives the same bytes: nothing that changes from run to run, such as a date.
    assert json.dumps(machine()) == json.dumps(found)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that nobody has compiled, and its folder."""
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return tmp_path / "fresh"


def test_a_package_that_is_compiled_at_every_import_is_told(package, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    remedy = f"compileall -q {package}"
    assert remedy in compiled_anew("fresh")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(os, "access", lambda path, mode: path != package)
    assert "PYTHONPYCACHEPREFIX" in compiled_anew("fresh")


def test_one_that_is_kept_or_will_be_is_not(package, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert compiled_anew("fresh") is None  # the first import keeps it
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    compileall.compile_dir(package, quiet=1)
    assert compiled_anew("fresh") is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
def test_one_core_is_given_back():
    before = os.sched_getaffinity(0)
    with one_core() as pinned:
        assert pinned
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
