"""The closest known name to one that is not known, and all that there are."""

from collections.abc import Iterable, Mapping
from typing import Final

LONGEST: Final = 100
"""Letters of a name that is worth a comparison with others, which takes the product of both lengths."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is near; "" if none is."""
    from difflib import get_close_matches  # slow to import, and needed only where something is wrong

    if len(name) > LONGEST:
        return ""
    matches = get_close_matches(name, [other for other in known if len(other) <= LONGEST], n=1)
    return matches[0] if matches else ""


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'matmul'?`, or nothing if no known name is near."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def closest_and_all(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'axis'? There are axis, keepdims`, for names that are few; the first half where one is near."""
    known = list(known)
    near = closest(name, known)
    return f"{near} There {are(known)}" if near else f"; there {are(known)}"


def are(known: Iterable[str]) -> str:
    """Return `are a, b`, `is a` or `are none`."""
    names = list(known)
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names) or 'none'}"


def no_attribute(thing: str, name: str, owner: object, elsewhere: Mapping[str, str] | None = None) -> AttributeError:
    """That a thing has no such attribute, with what habits from elsewhere mean by it, or the nearest that it has."""
    if elsewhere and name in elsewhere:
        return AttributeError(f"{thing} has no {name!r}; write {elsewhere[name]}")
    return no_name(thing, name, [word for word in dir(owner) if not word.startswith("_")])


def no_name(thing: str, name: str, known: Iterable[str]) -> AttributeError:
    """That a module or a thing has no such name, with the nearest, or all if none is near."""
    if name.startswith("_"):  # what tools ask everything for
        return AttributeError(f"{thing} has no {name!r}")
    known = sorted(known)
    begin = [word for word in known if word.startswith(name)]
    return AttributeError(f"{thing} has no {name!r}{closest(name, begin or known) or '; it has ' + ', '.join(known)}")
