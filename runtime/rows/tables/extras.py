"""Packages that only some sources need, and that the extra `data` brings."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from prograd_proto.wording import install_hint
from runtime.errors import UsageError


def extra(module: str, what: str) -> ModuleType:
    """Import and return a module of the extra `data`. Raise UsageError if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        package = {"PIL": "pillow"}.get(module.partition(".")[0], module.partition(".")[0])
        raise UsageError(f"{what} needs {package}, which is not installed; {install_hint('data')}") from None
