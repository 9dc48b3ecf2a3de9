"""Odd inputs whose right reading is known: files of spectra, and axes of unknown spectra.

`python -m benchmarks.curated`. All say the same series, `LEVELS`, `AXIS` and `SIGNAL` of
`benchmarks.fuzz`, or say it in a way that is wrong or may mean two things. The first must be read
as that series, the second refused with a message that has a word in it: what is written of every
case is what people would make of the file, not what a reader did.
"""

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import typer
import xarray

from benchmarks.curated_tables import Case, tables
from benchmarks.fuzz import AXIS, LEVELS, SIGNAL, Files, contents, jcamp_seeds, put
from benchmarks.geometry import markdown
from geonode.errors import GeonodeError
from geonode.estimation.axis import require_axis
from geonode.spectra.chart import Chart
from geonode.spectra.reading import Spectra, read_table
from geonode.spectra.series import Series

# JCAMP-DX

SAME_JCAMP: dict[str, tuple[bytes, bytes]] = {
    "as it is": (b"", b""),
    "Windows": (b"\n", b"\r\n"),
    "old Macintosh": (b"\n", b"\r"),
    "remarks": (b"\n##XUNITS", b"\n$$ 1 2 3\n##XUNITS"),
    "remarks behind": (b"ABSORBANCE\n", b"ABSORBANCE $$ or so\n"),
    "small letters": (b"##XUNITS=NANOMETERS", b"##xunits=nanometers"),
    "blanks in a label": (b"##DATA TYPE=", b"##DATA  TYPE= "),
    "private labels": (b"\n##XUNITS", b"\n##$OWN=1\n##.OTHER=2\n##XUNITS"),
    "blank lines": (b"\n##YUNITS", b"\n\n##YUNITS"),
    "a longer version": (b"4.24", b"5.00 $$ by hand"),
    "powers of ten": (b"##YFACTOR=0.001", b"##YFACTOR=1.0E-3"),
}
WRONG_JCAMP: dict[str, tuple[bytes, bytes, str]] = {
    "fewer points announced": (b"NPOINTS=12", b"NPOINTS=11", "points"),
    "more points announced": (b"NPOINTS=12", b"NPOINTS=13", "points"),
    "no points announced": (b"##NPOINTS=12\n", b"", "NPOINTS"),
    "points that are no number": (b"NPOINTS=12", b"NPOINTS=dozen", "found"),
    "another first place": (b"FIRSTX=400", b"FIRSTX=390", "FIRSTX"),
    "another last place": (b"LASTX=411", b"LASTX=422", "LASTX"),
    "both ends of angstroms": (b"FIRSTX=400\n##LASTX=411", b"FIRSTX=4000\n##LASTX=4110", "X"),
    "a first value that is not there": (b"##NPOINTS", b"##FIRSTY=7\n##NPOINTS", "FIRSTY"),
    "another step": (b"##NPOINTS", b"##DELTAX=2\n##NPOINTS", "DELTAX"),
    "no form": (b"##XYDATA=(X++(Y..Y))", b"##REMARK=(X++(Y..Y))", "found"),
    "words": (b"\n##END", b"\nabsorbance\n##END", "found"),
    "an infinite factor": (b"YFACTOR=0.001", b"YFACTOR=inf", "found"),
    "a factor in words": (b"YFACTOR=0.001", b"YFACTOR=milli", "found"),
}
FORMS = ("columns", "differences", "pairs")
MEANT = {("differences", "another last place"), ("pairs", "another step")}
"""What contradicts nothing: one line has one place, and pairs have all."""


def jcamp() -> Iterator[Case]:
    """Blocks in three forms, said in another way, or such that contradict themselves."""
    for form, files in zip(FORMS, jcamp_seeds(), strict=True):
        content = files[".jdx"]
        for name, (old, new) in SAME_JCAMP.items():
            yield Case("JCAMP-DX", f"{name}: {form}", {".jdx": content.replace(old, new)})
        for name, (old, new, word) in WRONG_JCAMP.items():
            if old in content and (form, name) not in MEANT:
                changed = content.replace(old, new)
                yield Case("JCAMP-DX", f"{name}: {form}", {".jdx": changed}, word)


# labelled arrays


def dataset(
    values: np.ndarray = SIGNAL, dims: tuple[str, str] = ("concentration", "wavelength")
) -> xarray.Dataset:
    """The series with coordinates and units."""
    level, axis = dims
    data = xarray.Dataset(
        {"absorbance": (dims, values, {"units": "1"})}, coords={level: LEVELS, axis: AXIS}
    )
    data[level].attrs["units"], data[axis].attrs["units"] = "ppb", "nm"
    return data


def _with(value: float, dtype: str = "f8") -> xarray.Dataset:
    values = SIGNAL.astype(dtype)
    values[2, 4] = value
    return dataset(values)


def _coordinate(name: str, values: Any) -> xarray.Dataset:
    return dataset().assign_coords({name: (name, np.asarray(values), {"units": "nm"})})


def _packed(number: int) -> xarray.Dataset:
    data = dataset()
    data["absorbance"].encoding = {"dtype": "i4", "scale_factor": 0.001, "_FillValue": number}
    return data


ARRAYS: dict[str, tuple[Callable[[], xarray.Dataset], str, float]] = {
    "as it is": (dataset, "", 1e-14),
    "turned": (lambda: dataset().transpose(), "", 1e-14),
    "other names": (lambda: dataset(dims=("conc", "lambda")), "", 1e-14),
    "single precision": (lambda: dataset(SIGNAL.astype("f4")), "", 1e-6),
    "packed": (lambda: _packed(-(2**31)), "", 1e-9),
    "axis upside down": (lambda: dataset().isel(wavelength=slice(None, None, -1)), "", 1e-14),
    "levels upside down": (lambda: dataset().isel(concentration=slice(None, None, -1)), "", 1e-14),
    "a number beside": (lambda: dataset().assign(count=7), "", 1e-14),
    "one replicate": (lambda: dataset().expand_dims(replicate=[1], axis=1), "", 1e-14),
    "NaN": (lambda: _with(np.nan), "empty or NaN", 0),
    "infinity": (lambda: _with(np.inf), "found", 0),
    "never written": (lambda: _with(9.969209968386869e36), "NetCDF", 0),
    "never written, single": (lambda: _with(9.969209968386869e36, "f4"), "NetCDF", 0),
    "too large": (lambda: _with(1e101), "1e+101", 0),
    "three levels": (lambda: dataset().isel(concentration=slice(3)), "3 concentrations", 0),
    "two wavelengths": (lambda: dataset().isel(wavelength=slice(2)), "2 wavelengths", 0),
    "an axis of texts": (lambda: _coordinate("wavelength", [f"{n:g} nm" for n in AXIS]), "axis", 0),
    "an axis with NaN": (lambda: _coordinate("wavelength", [*AXIS[:-1], np.nan]), "found", 0),
    "an axis twice": (lambda: _coordinate("wavelength", [*AXIS[:-1], AXIS[0]]), "400", 0),
    "no axis": (lambda: dataset().drop_vars("wavelength"), "wavelength", 0),
    "two of them": (lambda: dataset().assign(other=dataset()["absorbance"]), "one variable", 0),
    "none": (lambda: dataset().drop_vars("absorbance"), "found", 0),
    "a negative level": (
        lambda: dataset().assign_coords(concentration=-np.array(LEVELS)),
        "not negative",
        0,
    ),
}
ENGINES = ("scipy", "h5netcdf", "zarr 2", "zarr 3")


def stored(data: xarray.Dataset, engine: str) -> Files:
    """Files of labelled arrays in one of the formats."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "a"
        if not engine.startswith("zarr"):
            data.to_netcdf(path, engine=engine)  # type: ignore[call-overload]
            return {".nc": path.read_bytes()}
        data.to_zarr(path, zarr_format=int(engine[-1]), consolidated=False)
        return {f".zarr/{name}": part for name, part in contents(path).items()}


def labelled_arrays() -> Iterator[Case]:
    """The series in NetCDF and Zarr, said in another way, or with something wrong."""
    for engine in ENGINES:
        for name, (make, word, rounding) in ARRAYS.items():
            family = "NetCDF" if engine[0] != "z" else "Zarr"
            yield Case(family, f"{name}: {engine}", stored(make(), engine), word, rounding)


# unknown spectra

MODEL = np.arange(400.0, 701.0, 2.0)
KNOWN = (
    *(("wavelength", unit, MODEL) for unit in ("nm", "1")),
    *((name, "1", MODEL) for name in ("Wavelength", "lambda", "x", "axis", "pixel")),
    ("wavelength", "nm", np.arange(399.0, 703.0, 0.5)),
    ("wavelength", "nm", np.arange(300.0, 801.0)),
    ("wavelength", "nm", MODEL * (1 + 1e-10)),
)
STRANGE = (
    *((f"wavelength ({unit})", "1") for unit in ("angstrom", "Å", "pm", "m", "THz", "keV")),
    *((f"wavelength_{unit}", "1") for unit in ("A", "pm", "angstrom", "mm")),
    *(("frequency (THz)", "1"), ("frequency", "1"), ("raman_shift", "1"), ("Raman shift", "cm-1")),
    *(("energy", "eV"), ("photon_energy", "1"), ("wavenumber", "cm-1"), ("wavelength", "um")),
    *(("wavenumber", "1"), ("axis", "eV"), ("axis", "THz"), ("wavelength", "cm-1")),
)
PARTS = {
    "ends early": (MODEL[:-3], "missing"),
    "begins late": (MODEL[3:], "missing"),
    "elsewhere": (MODEL + 400, "missing"),
    "in micrometres": (MODEL / 1000, "missing"),
    "in angstroms": (MODEL * 10, "missing"),
    "with a gap": (np.delete(np.arange(400.0, 701.0), slice(100, 110)), "nothing between"),
    "with a gap at its end": (
        np.delete(np.arange(400.0, 701.0), slice(280, 300)),
        "nothing between",
    ),
}


def unknown() -> Iterator[Case]:
    """Axes of unknown spectra, of which a model has another or a part."""
    for name, unit, values in KNOWN:
        said = f"{name} in {unit}, {len(values)} from {values[0]:.12g}"
        yield Case("unknown", said, {}, axis=(name, unit, values))
    for name, unit in STRANGE:
        yield Case("unknown", f"{name} in {unit}", {}, "expected nm", axis=(name, unit, MODEL))
    for name, (values, word) in PARTS.items():
        yield Case("unknown", name, {}, word, axis=("wavelength", "nm", values))


# outcomes

KINDS = ("right", "refused", "wrong")

FAMILIES = (tables, jcamp, labelled_arrays, unknown)


def cases() -> Iterator[Case]:
    """All of them."""
    for family in FAMILIES:
        yield from family()


def outcome(case: Case, folder: Path) -> str:
    """`right` or `refused` as they should be, or what is wrong.

    Args:
        case: to read.
        folder: an empty one for its files.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = _unlike(case, folder)
    except GeonodeError as error:
        if case.refused and case.refused in str(error):
            return "refused"
        return f"refused, expected {case.refused or 'the series'}: {error}"
    except Exception as error:
        return f"raised {error!r:.200}"
    return wrong or ("right" if not case.refused else f"read, expected {case.refused}")


def _unlike(case: Case, folder: Path) -> str:
    """Difference between a case as read and as meant."""
    if case.axis is not None:
        name, unit, values = case.axis
        found = Spectra(["a"], values, name, unit, np.zeros((1, len(values))), np.empty(0))
        require_axis(model(), found)
        return ""
    table = read_table(put(folder, case.files))
    if not np.array_equal(table.concentrations, LEVELS):
        return f"read levels {table.concentrations.tolist()}"
    if not np.array_equal(table.axis, AXIS):
        return f"read an axis {table.axis.tolist()}"
    close = np.allclose(table.spectra, SIGNAL, rtol=case.rounding, atol=0)
    return "" if close else "read another signal"


def model() -> Series:
    """Model whose unknown spectra are estimated."""
    labels = {"axis": "wavelength", "axis_unit": "nm", "quantity": "a", "unit": "1"}
    levels = np.arange(5.0)
    chart = Chart.of("linear", None, levels)
    labels["concentration_unit"] = "ppb"
    return Series(levels, MODEL, np.zeros((5, len(MODEL))), chart, labels)


def main() -> None:
    """Read all of them, and count what is right."""
    counts: dict[str, Counter[str]] = {}
    failures = []
    for case in cases():
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(case, Path(folder))
        right = found in ("right", "refused")
        counts.setdefault(case.family, Counter())[found if right else "wrong"] += 1
        failures += [] if right else [f"{case.family}: {case.name}: {found}"]
    rows: list[dict[str, Any]] = [
        {"family": name, "cases": count.total()} | {kind: count[kind] for kind in KINDS}
        for name, count in {**counts, "all": sum(counts.values(), Counter())}.items()
    ]
    typer.echo(markdown(rows))
    for failure in failures:
        typer.echo(failure, err=True)
    raise typer.Exit(1 if failures else 0)


if __name__ == "__main__":
    typer.run(main)
