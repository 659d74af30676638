"""Files of the user that hide packages which the compiler needs: Python looks in the working folder first."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def hiding_file() -> str:
    """Return a sentence about a file that hides a package; "" if none does."""
    spec = find_spec("runtime")
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    if origin is not None and not (origin.parent / "hidden_packages.py").is_file():
        return (
            f"{origin} hides the package 'runtime', which prograd is made of; "
            "rename it, or run Python from another folder"
        )
    from runtime.hidden_packages import hiding_file as hiding_file_of

    return hiding_file_of("registry", "prograd_proto")


def require_visible() -> None:
    """Raise ImportError if a file of the user's hides a package."""
    why = hiding_file()
    if why:
        raise ImportError(why)
