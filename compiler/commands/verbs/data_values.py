"""The values of the options of `compiler data pack`; a malformed value is an error of usage in one sentence."""

from __future__ import annotations

from argparse import ArgumentTypeError

from compiler.data.options import SPLIT_METHODS
from prograd_proto.spelling import closest
from runtime.command_line.values import positive


def horizons(text: str) -> tuple[int, ...]:
    """Return different whole numbers from 1 on, in rising order."""
    return tuple(sorted({positive(part) for part in text.split(",")}))


def pair(text: str) -> tuple[str, str]:
    """Return a name and a value, from `age=mean`."""
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE, as in age=mean")
    return name, value


def dated(text: str) -> tuple[str, list[str]]:
    """Return a name and parts of dates, from `bought=days+year_cycle`; no parts stand for the default ones."""
    name, _, parts = text.partition("=")
    if not name:
        raise ArgumentTypeError(f"{text!r} is not NAME or NAME=PARTS, as in bought=days+year_cycle")
    return name, parts.split("+") if parts else []


def length(text: str) -> tuple[str, int]:
    """Return a name and a length, from `text=100`; 0 stands for all bytes or words."""
    if "=" not in text and text:
        return text, 0
    name, value = pair(text)
    return name, positive(value)


def hashed(text: str) -> tuple[str, int]:
    """Return a name and a number of hashes, from `city=100`."""
    name, value = pair(text)
    size = positive(value)
    if size < 2:
        raise ArgumentTypeError(f"{text!r}: hashes are from 1 to SIZE - 1, so SIZE is 2 or more")
    return name, size


def share(text: str) -> tuple[str, float]:
    """Return the name of a split and its share, from `train=0.8`."""
    name, value = pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not NAME=SHARE, as in train=0.8") from None


def split_method(text: str) -> tuple[str, str | None]:
    """Return how to split and by which column, from `stratified=label`."""
    way, equals, name = text.partition("=")
    if way not in SPLIT_METHODS:
        raise ArgumentTypeError(f"{way!r} is not one of {', '.join(SPLIT_METHODS)}{closest(way, SPLIT_METHODS)}")
    if (way == "random") == bool(equals and name):
        raise ArgumentTypeError(f"{text!r} is not HOW=NAME, as in stratified=label")
    return way, name or None


def image_size(text: str) -> tuple[int, int]:
    """Return height and width, from `32x32`."""
    height, cross, width = text.partition("x")
    if not cross:
        raise ArgumentTypeError(f"{text!r} is not HEIGHTxWIDTH, as in 32x32")
    return positive(height), positive(width)
