import pytest

from geonode.reading.headers import (
    amount_name,
    axis_header,
    concentration_header,
    labelled_level,
    level,
    role,
    same_unit,
    wavelength,
)

MEANINGS = [
    # names that are levels, and names that are not
    (level, "10", (10, 0, None, None)),
    (level, "10 ppb", (10, 0, "ppb", None)),
    (level, "1e-3 mg/L", (1e-3, 0, "mg/L", None)),
    (level, ".5 µM", (0.5, 0, "µM", None)),
    (level, "2 %", (2, 0, "%", None)),
    (level, "5.e2 CFU/mL__r12", (500, 12, "CFU/mL", None)),
    (level, "30__r2", (30, 2, None, None)),
    *((level, name, (2e-6, 0, "M", None)) for name in ("2x10^-6 M", "2·10⁻⁶ M", "2 × 10-6 M")),
    (level, "10^3 cells/mL__r2", (1e3, 2, "cells/mL", None)),
    *((level, name, None) for name in ("5 (10^-6 M)", "10-6 M", "2x10 M", "5 10^-6 M")),
    (level, "10_1", None),  # or 10.1
    (level, "10 MM", None),  # neither mM nor M
    *((level, name, None) for name in ("10 nm", "-1 ppb", "1e999", "30__r2 ppb", "١", "1_0")),
    # levels within names
    (labelled_level, "As_5ppb_2", (5, 2, "ppb", "as")),
    (labelled_level, "dye 1.5*10^(-6) M_2", (1.5e-6, 2, "M", "dye")),
    *((labelled_level, name, None) for name in ("5 (10^-6 M)", "5 10^-6 M")),
    (labelled_level, "10 uM R6G", (10, 0, "uM", "r6g")),
    (labelled_level, "Std. 3 (5 ppb), rep #2", (5, 2, "ppb", "std")),
    *((labelled_level, name, None) for name in ("50 % T", "10 mM NaCl pH 7", "5 ppb a")),
    (labelled_level, "lactose_mM_0.5", (0.5, 0, "mM", "lactose")),
    (labelled_level, "As (µg/L) 10_r2", (10, 2, "µg/L", "as")),
    (labelled_level, "salt_%_2 (3)", (2, 3, "%", "salt")),
    *((labelled_level, name, None) for name in ("1EE-6 M", "1 exp-6 M", "log 6 CFU/mL", "lg-6 M")),
    (labelled_level, "As-6 M", (6, 0, "M", "as")),
    (level, "1E−6 M", (1e-6, 0, "M", None)),
    *((labelled_level, name, None) for name in ("As_ppb_10_2", "As_ppb_1,5", "mixture_M_2")),
    (labelled_level, "ppb_1e999", None),
    # roles of headers
    *((role, name, "axis") for name in ("wavelength_nm", "Raman Shift", "position / nm", "NM")),
    *((role, name, "concentration") for name in ("conc_ppb", "nM")),
    (role, "arsenic (µM)", "concentration"),  # large M: no micrometre
    (role, "Scan", "replicate"),
    (role, "Sample name", "other"),
    *((role, name, None) for name in ("absorbance", "Absorbance (a.u.)", "400")),
    *((role, name, None) for name in ("Transmittance (%)", "T (%)", "Reflectance [%]")),
    *((role, name, "about") for name in ("Humidity (%)", "Laser power (%)", "± (ppb)")),
    *((role, name, "about") for name in ("Conc. error (ppb)", "Uncertainty (mg/L)", "RSD (%)")),
    *((role, name, "about") for name in ("Error (µM)", "error_uM", "CV (%)", "T", "unit.1")),
    *((role, name, "concentration") for name in ("T (µM)", "CV (µM)", "cv_ppb")),
    *((role, name, None) for name in ("log c (M)", "10^6 c / M", "lg(c/M)", "1/c (1/M)")),
    (role, "Chemical shift (ppm)", "axis"),
    # name and unit
    (axis_header, "wavelength_nm", ("wavelength", "nm")),
    (axis_header, "raman_shift_cm1", ("raman_shift", "cm-1")),
    *((axis_header, f"Raman shift ({u})", ("Raman shift", "cm-1")) for u in ("cm^-1", "cm–1")),
    (axis_header, "wavelengths (nanometers)", ("wavelengths", "nm")),
    (axis_header, "λ (nm)", ("λ", "nm")),
    (axis_header, "photon_energy_eV", ("photon_energy", "eV")),
    (axis_header, "shift (parsec)", ("shift (parsec)", "1")),  # of no known unit
    (axis_header, "nm", ("wavelength", "nm")),
    (axis_header, "(cm-1)", ("wavenumber", "cm-1")),
    (concentration_header, "conc. [drops]", ("conc.", "drops")),
    (concentration_header, "concentration", ("concentration", None)),
    (concentration_header, "ppb", ("concentration", "ppb")),
    (concentration_header, "Cu(II) (ppb)", ("Cu(II)", "ppb")),
    (concentration_header, "salt (% w/w)", ("salt", "% w/w")),
    (concentration_header, "salt [% (w/w)]", ("salt", "% (w/w)")),
    (concentration_header, "dye (10^-6 M)", ("dye", "10^-6 M")),
    (concentration_header, "c / 10-6 mol L-1", ("c", "10-6 mol L-1")),
    (concentration_header, "conc. (×10⁻⁶ M)", ("conc.", "×10⁻⁶ M")),
    (concentration_header, "conc (log CFU/mL)", ("conc", "log CFU/mL")),
    (concentration_header, "conc (log10(M))", ("conc", "log10(M)")),
    *((amount_name, name, "dye") for name in ("dye, ppb", "dye: ppb", "dye:", "y_dye (ppb)")),
    *((concentration_header, name, (name, None)) for name in ("log10 CFU/mL", "-log c (M)")),
    (wavelength, "400 nm", (400, "nm")),
    (wavelength, "−0.9", (-0.9, None)),
    (wavelength, "4e2 (cm^-1)", (400, "cm-1")),
    *((wavelength, text, None) for text in ("400 ppb", "x")),
]


@pytest.mark.parametrize(("reads", "text", "meaning"), MEANINGS)
def test_texts_have_their_meaning(reads, text, meaning):
    assert reads(text) == meaning


SPELLINGS = ["µM uM", "μM µmol/l", "mg L-1=mg/L", "mol/dm3 M"]
OTHERS = ["mM MM", "µg/L ppb", "mg/L mg/mL"]


@pytest.mark.parametrize("units", [*SPELLINGS, *OTHERS])
def test_spellings_are_of_one_unit_or_not(units):
    one, other = units.split("=") if "=" in units else units.split()
    assert same_unit(one, other) == same_unit(other, one) == (units in SPELLINGS)
