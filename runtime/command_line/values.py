"""The values of options, parsed alike by both commands; a malformed value is an error of usage in one sentence."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from math import isfinite
from typing import Final

from prograd_proto.byte_sizes import byte_size
from prograd_proto.spelling import closest

_DIGITS: Final = 18
"""Number of digits of the largest whole numbers that are accepted; they stay below 2^63."""

_CENTURY: Final = 3e9
"""A century in seconds, the largest duration that is accepted."""

_TIME: Final = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)(ms|s|min|h)?", re.ASCII | re.IGNORECASE)
_SECONDS: Final = {"": 1.0, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def positive(text: str) -> int:
    """Return a whole number from 1 on."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) >= 1):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 on, of at most {_DIGITS} digits")
    return int(text)


def natural(text: str) -> int:
    """Return a whole number from 0 on."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0 on, of at most {_DIGITS} digits")
    return int(text)


def port(text: str) -> int:
    """Return a port number; 0 stands for any free port."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) < 1 << 16):
        raise ArgumentTypeError(f"{text!r} is no port, a number from 0 to 65535")
    return int(text)


def counts(text: str) -> list[int]:
    """Return numbers of threads, as `1,2`, or `auto`."""
    return [threads(word) for word in text.split(",")]


def threads(text: str) -> int:
    """Return a number of threads; `auto` is at most one for each core that the process may use.

    Raises ArgumentTypeError for more threads than `why_too_many` lets a run have.
    """
    if text == "1":
        return 1
    from runtime.usable_cores import default_threads, why_too_many  # where it is asked for: start-up time

    if text == "auto":
        return default_threads()
    if why := why_too_many(positive(text)):
        raise ArgumentTypeError(f"{text}: {why}")
    return int(text)


def int64(text: str) -> int:
    """Return a whole number of 64 bits."""
    digits = text.removeprefix("-")
    fits = digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS + 1
    if not (fits and -(1 << 63) <= int(text) < 1 << 63):
        raise ArgumentTypeError(f"{text!r} is not a whole number of 64 bits")
    return int(text)


def size(text: str) -> int:
    """Return a number of bytes, from `1.5MiB`, `1GB` or `1000000`."""
    try:
        found = byte_size(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    if found >= 1 << 63:
        raise ArgumentTypeError(f"{text!r} is a size of 2^63 bytes or more")
    return found


def duration(text: str) -> float:
    """Return seconds, from `90`, `90s`, `1.5min`, `2h` or `500ms`; at most a century, the range of system clocks."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"{text[:40]!r} is not a time as 90, 1.5min, 2h or 500ms")
    return min(float(match[1]) * _SECONDS[(match[2] or "").lower()], _CENTURY)


def tolerance(text: str) -> float:
    """Return a number that is 0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a tolerance")
    return number


def setting(text: str) -> tuple[str, int | float]:
    """Return a name and a number, from `rate=3e-4`."""
    name, _, value = text.partition("=")
    found = number(value)
    if not name or found is None:
        raise ArgumentTypeError(f"{text[:80]!r} is not NAME=NUMBER, as in rate=3e-4")
    return name, found


def choices(text: str) -> tuple[str, list[int | float] | tuple[int | float, int | float, bool]]:
    """Return a name and several numbers, from `rate=1e-4,3e-4`, or the ends of a range, from `rate=1e-4..1e-2:log`."""
    name, _, values = text.partition("=")
    if name and ".." in values:
        ends = [number(end) for end in values.removesuffix(":log").split("..")]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            raise ArgumentTypeError(f"{text[:80]!r} is no range NAME=LOW..HIGH, as rate=1e-4..1e-2:log is")
        return name, (ends[0], ends[1], values.endswith(":log"))
    numbers = [found for value in values.split(",") if (found := number(value)) is not None]
    if not name or len(numbers) != values.count(",") + 1:
        raise ArgumentTypeError(f"{text[:80]!r} is not NAME=NUMBER,NUMBER as in rate=1e-4,3e-4")
    return name, numbers


def interval(text: str) -> tuple[int, int]:
    """Return two steps, from `300:400`."""
    first, _, last = text.partition(":")
    if not all(word.isascii() and word.isdecimal() and len(word) <= _DIGITS for word in (first, last)) or (
        int(first) >= int(last)
    ):
        raise ArgumentTypeError(f"{text!r} is no interval A:B of steps, as 300:400 is")
    return int(first), int(last)


def number(text: str) -> int | float | None:
    """Return a finite number, an int without point and exponent; None if the text is no number."""
    try:
        found = float(text)
        return (
            int(text) if text.removeprefix("-").isdecimal() and text.isascii() else found if isfinite(found) else None
        )
    except ValueError:
        return None


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser for one of these words, whose error suggests the nearest word."""

    def check(text: str) -> str:
        if text not in words:
            raise ArgumentTypeError(f"{text!r} is not one of {', '.join(words)}{closest(text, words)}")
        return text

    return check


def fold(text: str) -> tuple[int, int]:
    """Return the number of a fold from 1 on, and that of all folds, from `1/5`."""
    fault = f"{text!r} is no fold I/K, as 1/5 is: from 1 to K, which is 2 or more"
    return _one_of_all(text, fault, first=1, least=2)


def rank(text: str) -> tuple[int, int]:
    """Return the number of a process from 0 on, and that of all processes, from `0/4`."""
    fault = f"{text!r} is no process R/N, as in 0/4: from 0 to N - 1, and N is 2 or more"
    return _one_of_all(text, fault, first=0, least=2)


def part(text: str) -> tuple[int, int]:
    """Return the number of a part from 1 on, and that of all parts, from `3/16`."""
    return _one_of_all(text, f"{text!r} is no part I/N, as in 3/16", first=1, least=1)


def _one_of_all(text: str, fault: str, *, first: int, least: int) -> tuple[int, int]:
    """Return the two numbers around a slash: one counted from `first` on, and how many there are, `least` or more."""
    one, _, count = text.partition("/")
    numbers = [int(word) for word in (one, count) if word.isascii() and word.isdecimal() and len(word) < 10]
    if len(numbers) != 2 or not first <= numbers[0] < first + numbers[1] or numbers[1] < least:
        raise ArgumentTypeError(fault)
    return numbers[0], numbers[1]
