from dataclasses import replace

import numpy as np
import pytest
import xarray

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.spectra.chart import Chart
from geonode.spectra.series import read_series, write_series
from geonode.spectra.table import SpectraTable
from geonode.storage.artifact import open_artifact
from tests.factory import series_of
from tests.reading.tables import parameters, read_table

LEVELS = np.array([0.0, 5.0, 20.0, 60.0])
AXIS = np.array([400.0, 410.0, 425.0, 500.0, 600.0])
LABELS = {"signal": "intensity", "axis": "raman_shift", "axis_unit": "nm", "signal_unit": "1"}


def table(replicates=(1, 3, 1, 2), first=0.0):
    random = np.random.default_rng(0)
    return SpectraTable(
        axis=AXIS,
        axis_name="raman_shift",
        axis_unit="cm-1",
        concentrations=np.array([first, *LEVELS[1:]]),
        scans=[random.normal(size=(count, len(AXIS))) for count in replicates],
        masked=np.array([405.0, 450.0]),
    )


@pytest.fixture
def written(tmp_path):
    """Write a series, of one scan a level or of several; the table and the path."""

    def write(chart=("linear", None), **shape):
        made, path = table(**shape), tmp_path / "spectra.zarr"
        chart = Chart.of(*chart, made.concentrations)
        write_series(path, made, chart, parameters())
        return made, chart, path

    return write


@pytest.mark.parametrize(
    ("kind", "counts"),
    [
        (("linear", None), (1, 1, 1, 1)),
        (("log", None), (1, 3, 1, 2)),
        (("asinh", 0.1 + 0.2), (1, 3, 1, 2)),
    ],
)
def test_a_written_series_reads_back_to_the_last_bit(written, kind, counts):
    # The kappa of a linear chart may be infinite, which JSON has no number for.
    made, chart, path = written(chart=kind, replicates=counts, first=0.7)
    series = read_series(path)
    np.testing.assert_array_equal(series.concentrations, [0.7, 5, 20, 60])
    np.testing.assert_array_equal(series.axis, AXIS)
    np.testing.assert_array_equal(series.signal, [scans.mean(axis=0) for scans in made.scans])
    assert series.chart == chart
    assert series.labels == {
        **{"signal": "intensity", "signal_unit": "counts", "concentration_unit": "ppb"},
        **{"axis": "raman_shift", "axis_unit": "cm-1"},
    }
    assert series.replicates.scans.tolist() == list(counts)
    for name in ("level", "deviations"):
        expected = getattr(made.replicates, name)
        np.testing.assert_array_equal(getattr(series.replicates, name), expected)


def series_on(axis):
    return replace(series_of(LEVELS, np.zeros((4, len(axis))), axis), labels=LABELS)


def test_charted_positions_wavelengths_and_labels():
    series = series_on(AXIS)
    np.testing.assert_allclose(series.positions, [-1, -5 / 6, -1 / 3, 1])
    np.testing.assert_allclose(series.wavelengths, [-1, -0.9, -0.75, 0, 1])
    assert (series.axis_label, series.signal_label) == ("raman shift (nm)", "intensity")
    # The ends are exact: a geometry on [-1, 1] has nothing beyond.
    for low, high in ((400, 600), (200.1, 800.7), (1e-9, 3e7), (-0.3, 0.1)):
        ends = series_on(np.linspace(low, high, 7)).wavelengths[[0, -1]]
        np.testing.assert_array_equal(ends, [-1, 1])
    np.testing.assert_array_equal(series_on(AXIS[:1]).wavelengths, [0.0])


def test_the_artifact_explains_itself_to_xarray_and_is_a_series_again(written):
    made, _, path = written()
    with xarray.open_zarr(path, consolidated=False) as data:
        assert data["signal"].dims == ("concentration", "wavelength")
        assert data["signal"].attrs["units"] == "counts"
        assert data["signal"].attrs["long_name"] == "intensity"
        assert data["concentration"].attrs["units"] == "ppb"
        assert data["wavelength"].attrs == {"units": "cm-1", "long_name": "raman_shift"}
        np.testing.assert_allclose(data["position"], [-1, -5 / 6, -1 / 3, 1])
        np.testing.assert_array_equal(data["scans"], [1, 3, 1, 2])
        np.testing.assert_array_equal(data["replicate_level"], [1, 1, 1, 3, 3])
        deviations = [made.scans[level] - made.scans[level].mean(0) for level in (1, 3)]
        np.testing.assert_array_equal(data["replicate_deviation"], np.concatenate(deviations))
        assert data.attrs["masked"] == [405.0, 450.0]
    again = read_table(path)
    np.testing.assert_array_equal(again.spectra, made.spectra)
    assert (again.axis_name, again.concentration_unit) == ("raman_shift", "ppb")


def test_a_missing_a_damaged_and_a_foreign_artifact(written, tmp_path):
    with pytest.raises(MissingArtifactError, match=r"spectra\.zarr: not found"):
        read_series(tmp_path / "spectra.zarr")
    _, _, path = written()
    with read_series(path).artifact_writer(tmp_path / "other.zarr", {"of": "test"}) as writer:
        writer.stored("value", ("wavelength",), np.arange(5.0), units="1", long_name="values")
    other = open_artifact(tmp_path / "other.zarr")
    np.testing.assert_array_equal(other["wavelength"], AXIS)
    assert other.attributes["of"] == "test"
    with pytest.raises(ArtifactError, match=r"other\.zarr: no array 'concentration'"):
        read_series(tmp_path / "other.zarr")
    chunk = next(file for file in (path / "signal").rglob("0") if file.is_file())
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    with pytest.raises(CorruptArtifactError, match="'signal'"):
        read_series(path)
