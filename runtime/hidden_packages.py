"""Files of the user that hide packages of prograd: Python looks in the folder of the script, or its own, first."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

MARKS: Final = {"prograd_proto": "program_pb2.py", "registry": "audit.py", "runtime": "hidden_packages.py"}
"""A file by which each package is recognised: the user may have a package of the same name too."""


def hiding_file(*names: str) -> str:
    """Return a sentence about a file that hides one of these packages; "" if none does."""
    for name in names:
        spec = find_spec(name)
        origin = Path(spec.origin) if spec is not None and spec.origin else None
        if origin is not None and not (origin.parent / MARKS[name]).is_file():
            return (
                f"{origin} hides the package {name!r}, which prograd is made of; "
                "rename it, or run Python from another folder"
            )
    return ""


def require_visible(*names: str) -> None:
    """Raise ImportError if a file of the user's hides one of these packages."""
    why = hiding_file(*names)
    if why:
        raise ImportError(why)
