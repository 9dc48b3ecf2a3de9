"""Numbers, units and shares in sentences."""

import math

UNDEFINED = "undefined"


def number(value: float | int | None, digits: int = 3, absent: str = UNDEFINED) -> str:
    """Number with some significant digits and a proper minus sign.

    Args:
        value: the number; integers keep all digits.
        digits: significant digits.
        absent: text for None and for numbers that are not finite.
    """
    if value is None or not math.isfinite(value):
        return absent
    whole = float(value).is_integer() and abs(value) < 10 ** (digits + 1)
    if whole or isinstance(value, int):
        return f"{int(value):,}".replace(",", "\u202f").replace("-", "−")
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded and not 1e-4 <= abs(rounded) < 1e6:
        mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
        superscript = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        text = f"{mantissa} × 10{superscript}"
    else:
        size = math.floor(math.log10(abs(rounded))) if rounded else 0
        text = f"{rounded:,.{max(digits - 1 - size, 0)}f}".replace(",", "\u202f")
    return text.replace("-", "−")


def quantity(value: float | int | None, unit: str, digits: int = 3) -> str:
    """Number with its unit; the unit "1" is left out."""
    text = number(value, digits)
    return text if unit == "1" or text == UNDEFINED else f"{text} {unit}"


def share(value: float | None) -> str:
    """Share in per cent."""
    return UNDEFINED if value is None else f"{number(100 * value)} %"


def percent(level: float) -> str:
    """Level in per cent, for names of columns: "90", "99.5"."""
    return f"{100 * level:.10g}"


def per(unit: str, other: str) -> str:
    """Unit of a quotient; "1" is that of a number."""
    return f"{unit}/{other}".removesuffix("/1")


def listed(names: list[str]) -> str:
    """Names joined by commas and "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def difference(value: float | None, true: float) -> str:
    """Difference of a value from the true one, with its sign."""
    if value is None:
        return UNDEFINED
    return f"{'+' if value > true else ''}{number(value - true)}"
