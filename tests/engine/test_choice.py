import importlib.util

import pytest

from geonode.config import EngineParameters
from geonode.engine import choice
from geonode.engine.choice import open_engine
from geonode.engine.local import LOCAL
from geonode.errors import EngineError


def test_this_process_needs_no_scratch(tmp_path):
    local = EngineParameters(kind="local", scheduler=None, workers=3)
    with open_engine(local, tmp_path / "shared") as engine:
        assert engine is LOCAL
    assert not any(tmp_path.iterdir())


def test_what_to_install_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    assert importlib.util.find_spec("distributed") is not None
    dask = EngineParameters(kind="dask", scheduler=None, workers=1)
    with (
        pytest.raises(EngineError, match=r'pip install "geonode-spectra\[cluster\]"'),
        open_engine(dask, tmp_path / "shared"),
    ):
        pass
    assert not any(tmp_path.iterdir())
