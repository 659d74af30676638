"""The closest known name to one that is not known."""

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'matmul'?`, or nothing if no known name is near."""
    from difflib import get_close_matches  # slow to import, and needed only where something is wrong

    matches = get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
