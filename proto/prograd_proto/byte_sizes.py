"""Sizes in the notation of users, the same for both commands: `1.5MiB`, `1GB`, `1000000`."""

import re
from typing import Final

UNITS: Final = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)},
}
"""Bytes by unit: SI prefixes and IEC 80000-13 prefixes."""

_FACTOR: Final = {unit.upper(): factor for unit, factor in UNITS.items()}
_FORM: Final = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)([A-Za-z]*)", re.ASCII)


def byte_size(text: str) -> int:
    """Return the bytes of a size, rounded down; raise ValueError with a sentence if it is invalid. Ignores case."""
    from fractions import Fraction  # slow to import, and rarely needed

    match = _FORM.fullmatch(text)
    if match is None or match[2].upper() not in _FACTOR:
        raise ValueError(f"{text[:40]!r} is not a size as 1.5MiB, 1GB or 1000000")
    return int(Fraction(match[1]) * _FACTOR[match[2].upper()])


def exact_size(count: int) -> str:
    """Return a number of bytes exactly, and in units where that is easier to read: `1572864 bytes (1.5 MiB)`."""
    return f"{count} bytes" if count < 1024 else f"{count} bytes ({in_units(count)})"


def in_units(count: int) -> str:
    """Return a number of bytes in the largest IEC unit below it, with a digit after the point: `1.5 MiB`."""
    for power, prefix in ((4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if count >= 1024**power:
            return f"{count / 1024**power:.1f} {prefix}iB"
    return f"{count} B"
