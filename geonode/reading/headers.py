"""Meaning of headers: the spectral axis, concentrations, and the units of both."""

import re
from typing import Literal, NamedTuple

import numpy as np

from geonode.reading.sheet import LONGEST_NAME, MINUS
from geonode.spectra.quantities import quantity_of

UNITS = {
    **dict.fromkeys(("nm", "nanometer", "nanometers", "nanometre", "nanometres"), "nm"),
    **dict.fromkeys(("um", "µm", "μm"), "um"),  # micro sign, Greek mu
    **dict.fromkeys(("micrometer", "micrometers", "micrometre", "micrometres"), "um"),
    **dict.fromkeys(("micron", "microns", "micron(s)"), "um"),
    **dict.fromkeys(("cm-1", "cm1", "cm^-1", "cm**-1", "cm⁻¹", "1/cm", "/cm"), "cm-1"),
    **dict.fromkeys(("cm−1", "cm–1"), "cm-1"),  # minus sign, dash
    **dict.fromkeys(("ev", "electronvolt", "electronvolts"), "eV"),
}
"""CF spelling of the units of a spectral axis, by how headers spell them (lower case)."""

AXIS_OF_UNIT = {
    "nm": "wavelength",
    "um": "wavelength",
    "cm-1": "wavenumber",
    "eV": "photon_energy",
    "1": "axis",
}
"""Name of an axis of which only the unit is known, by unit."""

AXIS_NAMES = {
    *("wavelength", "wavelengths", "wave length", "wave", "wavel.", "wl", "lambda", "λ"),
    *("wavenumber", "wavenumbers", "wave number", "raman shift", "shift"),
    *("energy", "photon energy", "frequency", "chemical shift"),
    *("wellenlänge", "wellenzahl", "longueur d'onde", "longitud de onda", "lunghezza d'onda"),
}

Role = Literal["axis", "concentration", "replicate", "other", "about"]

HEADERS_OF_ROLE: dict[Role, set[str]] = {
    "concentration": {"concentration", "concentrations", "conc", "conc.", "level", "levels"},
    "axis": AXIS_NAMES,
    "replicate": {"replicate", "replicates", "rep", "repeat", "scan", "scans"},
    "other": {"sample", "samples", "sample name", "name", "id", "spectrum", "spectra", "label"},
}
"""Headers by role; others are of names that reveal nothing about concentrations."""

_NAMES_OF_SAMPLES = re.compile(
    r"(?:(?:sample|specimen|spectrum|test|vial|tube|proben?|file) ?)?(?:id|nr|nummer|code|key)[.#]?"
    r"|(?:sample|specimen|spectrum|test|vial|tube) ?(?:no|num|number|label)[.#]?|measurement"
    r"|specimen|probe|échantillon|muestra|campione|barcode|patient|vial|tube|cuvette|well"
)
_ABOUT_SAMPLES = re.compile(
    r"unnamed: ?\d+|(?:[a-z]+ )?(?:date|time|temperature|power|length)|datum|zeit|timestamp|year|t"
    r"|temp\.?|humidity|exposure|pathlength|dilution(?: factor)?|volume|depth|(?:well )?(?:row|col"
    r"|column)|plate|position|batch|lot|run|order|serial|seq|file ?(?:name)?|class|group|gain"
    r"|units?(?:\.\d+)?|einheit|recovery|lo[dq]|±.*|(?:.+ )?(?:uncertainty|error|deviation|stdev"
    r"|r?sd|sem|cv|std\.? (?:dev|err)\.?)"
)
"""Headers of numbers that are no concentrations in any unit, unless one is asked for by name."""

_PREFIX = "[fpnuµμmcdk]?"
_VOLUME = r"(?:[nuµμmcd]?[Ll]|[mcd]?m\^?[3³])"
CONCENTRATION_UNIT = (
    rf"{_PREFIX}M|{_PREFIX}(?:mol|g|eq)/(?:100 ?)?(?:{_VOLUME}|{_PREFIX}g)"
    rf"|{_PREFIX}(?:mol|g)[\s·*.]?(?:[nuµμmcd]?[Ll]\^?(?:[-−–]1|⁻¹)|[mcd]?m\^?(?:[-−–]3|⁻³))"
    rf"|(?:{_PREFIX}I?U|CFU|cfu|cells|copies|particles)/{_VOLUME}"
    r"|pp[mbtq][vw]?|P[Pp][MBTQmbtq]"
    r"|(?:wt|vol|mol)?\.? ?%(?: ?[wv]/[wv]| ?\([wv]/[wv]\))?"
)
"""Units of concentrations; letters are large or small as they should be: mM is not MM."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻−", "0123456789+--")
# A power in brackets without a factor is a unit.
_POWER = re.compile(
    r"(?:(?P<factor>(?<=[0-9.])[\s_]*[xX×·⋅*]\s*)|(?<![0-9A-Za-z.^(\[]))10"
    r"(?:\^\(?(?P<exponent>[+−-]?[0-9]{1,2})\)?|(?P<raised>[⁺⁻]?[⁰¹²³⁴-⁹]{1,2})"
    r"|(?(factor)(?P<signed>[+−-][0-9]{1,2})|(?!)))(?![0-9.,])"
)
# Not from within a run of blanks, nor with two ways through a run of digits: else the time that a
# header takes would grow with the square of its length.
_BEFORE_UNIT = r"(?<![\s_/])(?:[\s_/]+|[\s_/]*[(\[])"
_AXIS_HEADER = re.compile(rf"(?P<name>.*?){_BEFORE_UNIT}(?P<unit>1/cm|[^\s_/()\[\]]+)[)\]]?")
_FACTOR = r"(?:[xX×·⋅*]\s*)?10(?:\^?[+−-][0-9]{1,2}|\^[0-9]{1,2}|[⁺⁻]?[⁰¹²³⁴-⁹]{1,2})[\s·⋅×*]*"
_CONCENTRATION_HEADER = re.compile(
    rf"(?P<name>(?:[^()\[\]]|\([^()]*\)|\[[^\[\]]*\])*?){_BEFORE_UNIT}"
    rf"(?P<unit>(?:{_FACTOR})?(?:{CONCENTRATION_UNIT}))[)\]]?"
)
# Of names of logarithms, reciprocals and multiples.
_CHANGED = re.compile(r"(?<![A-Za-z])(?:[Ll]og|lg|ln)(?![a-z])|(?<![0-9])1 ?/|10[\^⁺⁻⁰¹²³⁴-⁹]")
_BRACKETS = re.compile(
    r"(?P<name>conc[a-z]*\.?|levels?)[\s_]*[(\[](?P<unit>(?:[^()\[\]]|\([^()]*\))+)[)\]]", re.I
)
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LEVEL = re.compile(rf"(?P<number>{_NUMBER})(?:[\s_]*[(\[]?(?P<unit>{CONCENTRATION_UNIT})[)\]]?)?")
_WAVELENGTH = re.compile(rf"(?P<number>{_NUMBER})[\s_]*[(\[]?(?P<unit>[^\s()\[\]]+)[)\]]?")
# A concentration within a name has a unit, and stands apart from what is before it.
_WITHIN = re.compile(
    r"(?:^|(?<=[\s_(\[])|(?<=[A-Za-z][A-Za-z]-))"
    r"(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"[\s_]*[(\[]?(?P<unit>{CONCENTRATION_UNIT})(?![A-Za-z0-9/%^])[)\]]?"
)
# A number, which may be a mantissa, or a logarithm.
_NUMBER_BEFORE = re.compile(
    r"(?:^|[\s_(\[])[+-]?[0-9.,]+[\s_]*(?:(?i:ee?|exp)-)?$|(?<![A-Za-z])(?i:log|lg|ln)[\s_-]*$"
)
# The name of a substance stands behind an amount too, but not behind per cent, as in 50 % T.
_BEHIND = re.compile(
    r"[\s_.,#-]*(?:\(?(?:rep(?:licate|eat)?|scan|run|r)?[\s_.#-]*(?P<scan>[0-9]{1,3})\)?)?"
    r"|[\s_-]+(?P<label>[a-z][a-z0-9]+)",
    re.I,
)
_COUNTED = re.compile(r"^(std|standard|cal|level)[\s_.-]*[0-9]+$")
_SCAN_MARK = re.compile(r"(?P<level>.+)__r(?P<scan>[1-9][0-9]{0,5})")
# As people mark scans of a bare number; 10_1 may be 10.1.
_SCAN_OF_NUMBER = re.compile(
    rf"(?P<level>{_NUMBER})[\s_-]*(?:(?P<open>\()|(?<=[\s_-])(?i:rep(?:licate|eat)?|scan|run|r)"
    r"[\s_.-]*)(?P<scan>[1-9][0-9]{0,2})(?(open)\))"
)
# A unit before its number; M may be the letter of a sample, and 1_2 may be 1.2.
_UNIT_BEFORE = re.compile(
    rf"(?:^|(?<=[\s_(\[-]))(?!M[\s_])(?P<unit>{CONCENTRATION_UNIT})(?:[)\]][\s_]*|[\s_]+)"
    r"(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![0-9.,]|[\s_-][0-9])"
)

_KINDS = {
    **{"wavelength": "length", "lambda": "length", "λ": "length"},
    **{"wavenumber": "number", "wave number": "number", "raman": "number", "shift": "number"},
    **{"energy": "energy", "photon energy": "energy", "frequency": "frequency"},
}
_REST = re.compile(r"\s*(?:[(\[/]|\s)\s*(?P<unit>[^\s()\[\]/][^()\[\]]*?)\s*[)\]]?")


class NamedLevel(NamedTuple):
    """Concentration and scan in the name of a spectrum."""

    concentration: float
    """Finite, not negative."""
    scan: int
    """Number in the mark of the scan, which only orders those of a level; 0 without one."""
    unit: str | None
    """Unit, as the name gives it."""
    label: str | None = None
    """Text before it, such as "as" of "As_5ppb"; None where the name is no more than
    a concentration."""


def axis_unit(text: str) -> str | None:
    """Unit of a spectral axis that a text is, as `nm` or `(cm-1)`; None for others, as nM."""
    bare = text.strip("()[] ")
    return None if re.fullmatch(CONCENTRATION_UNIT, bare) else UNITS.get(bare.lower())


def axis_header(header: str) -> tuple[str, str]:
    """Name and unit of a spectral axis; unit "1" where the header names none that is known.

    A header that is a unit alone names the usual axis of that unit, as `nm` does wavelengths.
    """
    if alone := axis_unit(header):
        return AXIS_OF_UNIT[alone], alone
    match = _AXIS_HEADER.fullmatch(header)
    unit = UNITS.get(match["unit"].lower().rstrip(".")) if match else None
    return (match["name"], unit) if match and match["name"] and unit else (header, "1")


def axis_kind(name: str) -> str | None:
    """Kind of an axis: "length", "number" of waves, "energy" or "frequency"; None if unknown."""
    bare = _words(name)
    return next((kind for word, kind in _KINDS.items() if bare.startswith(word)), None)


def unknown_unit(name: str) -> str | None:
    """Unknown unit after the name of an axis; None without one."""
    bare = _words(name)
    if bare in AXIS_NAMES:
        return None
    for word in sorted(AXIS_NAMES, key=len, reverse=True):
        rest = bare.removeprefix(word)
        if rest != bare and (match := _REST.fullmatch(rest)):
            return match["unit"]
    return None


def concentration_header(header: str) -> tuple[str, str | None]:
    """Name and unit of a concentration; None where the header names none.

    A unit in brackets may be any; without them it must be known, as `conc_ppb`. A header that is a
    unit alone names the concentration, as `ppb` does. That of a logarithm, a reciprocal or a
    multiple of a concentration is not its unit.
    """
    if re.fullmatch(CONCENTRATION_UNIT, header):
        return "concentration", header
    match = _CONCENTRATION_HEADER.fullmatch(header) or _BRACKETS.fullmatch(header)
    if not match or not match["name"]:
        return header, None
    return (header, None) if _CHANGED.search(match["name"]) else (match["name"], match["unit"])


def amount_name(header: str) -> str:
    """Name of an amount without its unit, and without the `y_` of multivariate tables."""
    bare = concentration_header(header)[0].strip(" ,:;")
    return bare[2:] if is_marked_amount(bare) else bare


def is_marked_amount(header: str) -> bool:
    """True where a header is that of an amount, as `y_protein` is."""
    return len(header) > 2 and header[:2].lower() in ("y_", "y.", "y:")


def role(header: str) -> Role | None:
    """Role of a column by its header; None if unknown."""
    bare = re.split(r"[(\[/]", header)[0]
    parts = (header, bare, axis_header(header)[0], concentration_header(header)[0])
    names = {_words(part) for part in parts}
    for found, known in HEADERS_OF_ROLE.items():
        if names & known:
            return found
    unit = concentration_header(header)[1]
    # T (µM) is no temperature, and CV (µM) no coefficient of variation.
    others = names - {"t", "cv"} if unit and "%" not in unit else names
    is_about = any(map(_ABOUT_SAMPLES.fullmatch, others))
    if unit and quantity_of(header) is None:  # before the axis: a µM is no micrometre
        return "about" if is_about else "concentration"
    if axis_header(header)[1] != "1":
        return "axis"
    if any(map(_NAMES_OF_SAMPLES.fullmatch, names)):
        return "other"
    return "about" if is_about and quantity_of(header) is None else None


def _with_exponents(name: str) -> str:
    """A name with powers of ten such as 2x10^-6, 2·10⁻⁶ or 10^-6 as 2e-6 and 1e-6."""

    def exponent(power: re.Match[str]) -> str:
        digits = power["exponent"] or power["raised"] or power["signed"]
        return f"{'' if power['factor'] else 1}e{digits.translate(_SUPERSCRIPTS)}"

    return _POWER.sub(exponent, name.replace(MINUS, "-"))


def level(name: str) -> NamedLevel | None:
    """The concentration that a name is; None if it is none that is finite and not negative."""
    name = _with_exponents(name)
    mark = _SCAN_MARK.fullmatch(name) or _SCAN_OF_NUMBER.fullmatch(name)
    text, scan = (mark["level"].strip(), int(mark["scan"])) if mark else (name, 0)
    match = _LEVEL.fullmatch(text)
    if match is None:
        return None
    concentration = float(match["number"])
    if not 0 <= concentration < np.inf:
        return None
    return NamedLevel(concentration + 0.0, scan, match["unit"])


def labelled_level(name: str) -> NamedLevel | None:
    """The concentration with a unit that stands in a name; None if there is none, or several.

    The number behind it, as in "As_5ppb_2" or in "5 ppb.1", as pandas renames columns, only orders
    the scans of a level. The unit may stand before the number, as in "As_ppb_5". The label may
    stand behind, as in "5 ppb As", and numbers of standards are no part of it.
    """
    found = _within(name)
    if found is None:
        return None
    match, behind = found
    concentration = float(match["number"])
    if not concentration < np.inf:
        return None
    bare = _COUNTED.sub(r"\1", match.string[: match.start()].strip(" _-([").lower())
    label = f"{bare} {(behind['label'] or '').lower()}".strip()
    return NamedLevel(concentration, int(behind["scan"] or 0), match["unit"], label)


def _within(name: str) -> tuple[re.Match[str], re.Match[str]] | None:
    """The only concentration in a name, and what is behind it; None if that is anything else."""
    name = _with_exponents(name) if len(name) <= LONGEST_NAME else ""
    found = list(_WITHIN.finditer(name)) or list(_UNIT_BEFORE.finditer(name))
    if len(found) != 1:
        return None
    (match,) = found
    behind = _BEHIND.fullmatch(name[match.end() :])
    if behind is None or _NUMBER_BEFORE.search(name[: match.start()]) or not match["unit"].strip():
        return None
    return None if behind["label"] and "%" in match["unit"] else (match, behind)


def has_concentration(name: str) -> bool:
    """True where a number with a unit of concentrations stands somewhere in a name."""
    name = _with_exponents(name)
    behind = re.search(rf"[0-9][\s_]*[(\[]?(?:{CONCENTRATION_UNIT})(?![A-Za-z])", name)
    return bool(behind or _UNIT_BEFORE.search(name))


def wavelength(text: str) -> tuple[float, str | None] | None:
    """The value of a spectral axis with its unit, such as "400 nm"; None if it is none."""
    text = text.replace(MINUS, "-")
    if re.fullmatch(_NUMBER, text):
        return float(text), None
    match = _WAVELENGTH.fullmatch(text)
    unit = axis_unit(match["unit"]) if match else None
    return (float(match["number"]), unit) if match and unit else None


def with_point(text: str) -> str:
    """A level, alone or in a name, or a wavelength with a decimal point in place of its comma.

    Other texts stay as they are. A comma in a name is none: 2,4-D is no level.
    """
    is_short = len(text) <= LONGEST_NAME and not _within(text)
    for comma in re.finditer(",(?=[0-9])", text if is_short else ""):
        changed = f"{text[: comma.start()]}.{text[comma.end() :]}"
        if is_value(changed) or _within(changed):
            return changed
    return text


def marked_number(text: str) -> str | None:
    """The number, with its marks, of a level, alone or in a name, or of a wavelength; or None."""
    changed = with_point(text)
    if is_value(changed):
        return text[: len(text) - len(text.lstrip("+-0123456789.,"))]
    found = _within(changed)
    if found is None:
        return None
    number = found[0]["number"]
    return number if changed == text else number.replace(".", ",")


def is_value(text: str) -> bool:
    """True where a text is a level or a wavelength, with a decimal point if it has one."""
    is_short = len(text) <= LONGEST_NAME and text[:1] in [*"+-0123456789."]
    return is_short and bool(level(text) or wavelength(text))


def same_unit(one: str, other: str) -> bool:
    """True where two spellings are of one unit, as µM, uM and µmol/L are; nothing is converted."""
    return _plain_unit(one) == _plain_unit(other)


def _words(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip().lower()


def _plain_unit(unit: str) -> str:
    text = re.sub(r"[\s·*^().]", "", unit.translate(str.maketrans("µμ³¹⁻−–", "uu31---")))
    text = re.sub(r"([numcd]?)[Ll]-1$", r"/\1L", re.sub(r"([mcd]?m)-3$", r"/\g<1>3", text))
    text = re.sub(r"l$", "L", text) if "/" in text else text
    text = re.sub(r"mol/(L|dm3)$", "M", text)
    return text.lower() if re.fullmatch("P[Pp].|CFU/.*", text) else text
