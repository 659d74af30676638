"""The packages that the names of `prograd` lie in, imported, unless a file of the user's stands in their place.

Python looks first in the folder of the script, or in the working folder: a file `runtime.py` there is imported in
place of the package, and what fails then is a name that the package has.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_NEEDS = {"runtime": ("runtime", "prograd_proto"), "compiler": ("compiler", "registry", "runtime", "prograd_proto")}
_PLACES = (Path(__file__).parents[1], Path(__file__).parents[1] / "proto")  # installed, and in a clone


def found_room(name: str) -> ModuleType:
    """The package of that name. Raises ImportError if another module hides it, or one that it needs."""
    for needed in _NEEDS[name]:
        hidden_by = _hidden_by(needed)
        if hidden_by:
            raise ImportError(
                f"{hidden_by} hides the package {needed!r}, which prograd is made of; "
                "rename it, or run Python from another folder"
            )
    return import_module(name)


def _hidden_by(name: str) -> str:
    """The file that Python takes for the package; "" if it is the package, or if there is none."""
    loaded = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else loaded.__spec__
    if spec is None or not spec.origin:
        return ""
    return "" if Path(spec.origin).parent in [place / name for place in _PLACES] else spec.origin
