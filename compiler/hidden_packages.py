"""Files of the user that hide packages which `python -m compiler` needs: Python looks in the working folder first."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def hiding_file() -> str:
    """Return a sentence about a file that hides a package; "" if there is none."""
    for name in ("runtime", "registry", "prograd_proto"):
        spec = find_spec(name)
        origin = Path(spec.origin) if spec is not None and spec.origin else None
        if origin is not None and origin.name != "__init__.py":
            return (
                f"{origin} hides the package {name!r}, which prograd is made of; "
                "rename it, or run Python from another folder"
            )
    return ""
