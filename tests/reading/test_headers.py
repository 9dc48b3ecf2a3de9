import pytest

from geonode.reading.headers import (
    axis_header,
    concentration_header,
    labelled_level,
    level,
    role,
    same_unit,
    wavelength,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("10", (10, 0, None)),
        ("10 ppb", (10, 0, "ppb")),
        ("10 (ppb)", (10, 0, "ppb")),
        ("1e-3 mg/L", (1e-3, 0, "mg/L")),
        (".5 µM", (0.5, 0, "µM")),
        ("2 %", (2, 0, "%")),
        ("5.e2 CFU/mL__r12", (500, 12, "CFU/mL")),
        ("30__r2", (30, 2, None)),
        ("30__r1", (30, 1, None)),
        ("10_1", None),  # or 10.1
        ("10 MM", None),  # neither mM nor M
        ("10 nm", None),
        ("-1 ppb", None),
        ("1e999", None),
        ("30__r2 ppb", None),
        ("١", None),
        ("1_0", None),
    ],
)
def test_names_that_are_levels_and_names_that_are_not(name, expected):
    found = level(name)
    assert (found and found[:3]) == expected


def test_levels_within_names():
    assert labelled_level("As_5ppb_2") == (5, 2, "ppb", "as")
    assert labelled_level("lactose_mM_0.5") == (0.5, 0, "mM", "lactose")
    assert labelled_level("As (µg/L) 10_r2") == (10, 2, "µg/L", "as")
    assert labelled_level("salt_%_2 (3)") == (2, 3, "%", "salt")
    for name in ("As_ppb_10_2", "As_ppb_1,5", "mixture_M_2", "ppb_1e999"):
        assert labelled_level(name) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("wavelength_nm", "axis"),
        ("Raman Shift", "axis"),
        ("position / nm", "axis"),
        ("NM", "axis"),
        ("conc_ppb", "concentration"),
        ("arsenic (µM)", "concentration"),  # large M: no micrometre
        ("nM", "concentration"),
        ("Scan", "replicate"),
        ("Sample name", "other"),
        ("absorbance", None),
        ("Absorbance (a.u.)", None),
        ("400", None),
    ],
)
def test_roles_of_headers(header, expected):
    assert role(header) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("wavelength_nm", ("wavelength", "nm")),
        ("raman_shift_cm1", ("raman_shift", "cm-1")),
        ("Raman shift (cm^-1)", ("Raman shift", "cm-1")),
        ("wavelength [nm]", ("wavelength", "nm")),
        ("wavelengths (nanometers)", ("wavelengths", "nm")),
        ("λ (nm)", ("λ", "nm")),
        ("wavelength_µm", ("wavelength", "um")),
        ("photon_energy_eV", ("photon_energy", "eV")),
        ("shift (parsec)", ("shift (parsec)", "1")),  # of no known unit
        ("nm", ("wavelength", "nm")),
        ("(cm-1)", ("wavenumber", "cm-1")),
    ],
)
def test_name_and_unit_of_an_axis(header, expected):
    assert axis_header(header) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("µM", "uM", True),
        ("μM", "µmol/l", True),
        ("mg L-1", "mg/L", True),
        ("mol/dm3", "M", True),
        ("mM", "MM", False),
        ("µg/L", "ppb", False),  # in water only
        ("mg/L", "mg/mL", False),
    ],
)
def test_spellings_of_one_unit(one, other, same):
    assert same_unit(one, other) == same_unit(other, one) == same


def test_units_of_concentrations_and_of_wavelengths_in_cells():
    assert concentration_header("conc. [drops]") == ("conc.", "drops")
    assert concentration_header("concentration") == ("concentration", None)
    assert concentration_header("c_mg/L") == ("c", "mg/L")
    assert [wavelength(text) for text in ("400", "400 nm", "4e2 (cm^-1)", "400 ppb", "x")] == [
        (400, None),
        (400, "nm"),
        (400, "cm-1"),
        None,
        None,
    ]
