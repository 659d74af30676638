"""Import of the packages behind the names of `prograd`, unless a file of the user's hides one.

Python looks first in the folder of the script, or in the working folder. A file `runtime.py` there is imported in place
of the package, and the later error is a missing name of the package.

In a clone, that folder has all packages but one, which is in `proto`. It is taken from there, and not from an installed
prograd, so that all packages have one version.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_NEEDS = {"runtime": ("runtime", "prograd_proto"), "compiler": ("compiler", "registry", "runtime", "prograd_proto")}
_PLACES = (Path(__file__).parents[1], Path(__file__).parents[1] / "proto")  # installed, and in a clone
_CLONED_PROTO = _PLACES[1] / "prograd_proto"


def found_room(name: str) -> ModuleType:
    """Import the package of that name. Raise ImportError if another module hides it or a package that it needs."""
    require_visible(name)
    return import_module(name)


def require_visible(name: str) -> None:
    """Raise ImportError if a file of the user's hides the package of that name, or one that it needs."""
    if "prograd_proto" not in sys.modules and _is_installed(_origin("prograd_proto")) and _CLONED_PROTO.is_dir():
        sys.path.insert(0, str(_CLONED_PROTO.parent))
    for needed in _NEEDS[name]:
        hidden_by = _hidden_by(needed)
        if hidden_by:
            raise ImportError(
                f"{hidden_by} hides the package {needed!r}, which prograd is made of; "
                "rename it, or run Python from another folder"
            )


def _hidden_by(name: str) -> str:
    """Return the file that hides the package; "" if none does."""
    origin = _origin(name)
    is_ours = not origin or Path(origin).parent in [place / name for place in _PLACES] or _is_installed(origin)
    return "" if is_ours else origin


def _origin(name: str) -> str:
    """Return the file that Python has imported, or would import, for a package; "" if there is none."""
    loaded = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else loaded.__spec__
    return "" if spec is None else spec.origin or ""


def _is_installed(origin: str) -> bool:
    """Return True if a package is part of another prograd that is installed."""
    return Path(origin).name == "__init__.py" and (Path(origin).parents[1] / "prograd" / Path(__file__).name).is_file()
