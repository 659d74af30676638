"""The error of a server that has as many requests as it takes."""

from __future__ import annotations

from runtime.errors import ExecutionError


class Busy(ExecutionError):
    """There are as many requests as the server takes; a later one may find room."""
