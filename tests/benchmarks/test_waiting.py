import numpy as np

from benchmarks import waiting
from geonode.spectra.reading import read_table


def test_simulated_series_can_be_read_and_are_always_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(waiting, "SIMULATED", 3)
    monkeypatch.setattr(waiting, "WAVELENGTHS", 20)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        waiting.Clone(folder, 1).simulated()
    texts = {path.name: path.read_text() for path in (first / "simulated").iterdir()}
    assert texts == {path.name: path.read_text() for path in (second / "simulated").iterdir()}
    series = [read_table(path) for path in sorted((first / "simulated").iterdir())]
    assert [len(one.concentrations) for one in series] == [4, 8, 12]
    assert all(np.isfinite(one.scans).all() for one in series)
