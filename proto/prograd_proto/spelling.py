"""Suggestions for an unknown name: the closest known name, or all known names."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

MAX_NAME_CHARACTERS: Final = 100
"""Upper bound on the characters of a compared name; a comparison takes the product of both lengths."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the closest known name; "" if none is close."""
    from difflib import get_close_matches  # slow to import, and needed only on errors

    is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
    if not is_text or len(name) > MAX_NAME_CHARACTERS:
        return ""
    matches = get_close_matches(name, [other for other in known if len(other) <= MAX_NAME_CHARACTERS], n=1)
    return matches[0] if matches else ""


_FIRST = 8
"""Number of names that a sentence lists at most."""


def closest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'matmul'?`, or "" if no known name is close."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def closest_and_all(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'axis'? There are axis, keepdims`, for few names; either half may be missing."""
    known = list(known)
    near = closest(name, known)
    return f"{near} There {are(known)}" if near else f"; there {are(known)}"


def closest_or_all(name: str, known: Iterable[str], words: str = "there are") -> str:
    """Return `; did you mean 'axis'?`, or else `; there are axis, keepdims` with all names, by these words."""
    known = list(known)
    return closest(name, known) or f"; {words} {', '.join(known) or 'none'}"


def closest_or_first(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'axis'?`, or else `; there are axis, keepdims` with the first few names, or nothing."""
    known = list(known)
    shown = [*known[:_FIRST], *(["…"] if len(known) > _FIRST else [])]
    return closest(name, known) or (f"; there are {', '.join(shown)}" if shown else "")


def are(known: Iterable[str]) -> str:
    """Return `are a, b`, `is a` or `are none`."""
    names = list(known)
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names) or 'none'}"


def no_attribute(thing: str, name: str, owner: object, elsewhere: Mapping[str, str] | None = None) -> AttributeError:
    """Return the error for an unknown attribute, with its equivalent from other libraries or the closest name."""
    if elsewhere and name in elsewhere:
        return AttributeError(f"{thing} has no {name!r}; write {elsewhere[name]}")
    return no_name(thing, name, [word for word in dir(owner) if not word.startswith("_")])


def module_getattr(module: str, known: Iterable[str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a module with these names, which raises the error of `no_name`."""

    def raise_no_name(name: str) -> object:
        raise no_name(module, name, known)

    return raise_no_name


def no_name(thing: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for an unknown name of a module or an object, with the closest name, or all names."""
    if name.startswith("_"):  # tools look these up on every object
        return AttributeError(f"{thing} has no {name!r}")
    known = sorted(known)
    begin = [word for word in known if word.startswith(name)]
    return AttributeError(f"{thing} has no {name!r}{closest(name, begin or known) or '; it has ' + ', '.join(known)}")
