"""The closest known name to one that is not known."""

from collections.abc import Iterable
from typing import Final

LONGEST: Final = 100
"""Letters of a name that is worth a comparison with others, which takes the product of both lengths."""


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'matmul'?`, or nothing if no known name is near."""
    from difflib import get_close_matches  # slow to import, and needed only where something is wrong

    if len(name) > LONGEST:
        return ""
    matches = get_close_matches(name, [other for other in known if len(other) <= LONGEST], n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
