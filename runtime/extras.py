"""Packages that few need: imported when they are used, and where one is missing, a sentence says what installs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from runtime.errors import UsageError


def extra(module: str, name: str, what: str) -> Any:
    """A module of a package that `pip install "prograd[name]"` brings, for `what`, as in "runtime serve".

    Raises UsageError if the package is not there.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise UsageError(f'{what} needs the package {package}: pip install "prograd[{name}]"') from None
