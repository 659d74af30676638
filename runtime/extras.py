"""Optional packages: imported on first use, with an error that names the installation command if one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from prograd_proto.wording import install_hint
from runtime.errors import UsageError


def extra(module: str, name: str, what: str) -> Any:
    """Return a module of a package that the extra `name` installs; `what` is the feature, "runtime serve".

    Raises UsageError if the package is missing.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise UsageError(f"{what} needs the package {package}: {install_hint(name)}") from None
