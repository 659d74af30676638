"""Output files of a command, checked before the work starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from runtime.errors import UsageError


def require_free(files: Iterable[str | os.PathLike[str] | None], *, force: bool) -> None:
    """Raise UsageError for a file that exists, unless `force`, or that has no folder; None stands for no file."""
    for file in files:
        if file is None:
            continue
        if Path(file).exists() and not force:
            raise UsageError(f"{os.fspath(file)}: the file exists; --force replaces it")
        if not Path(file).absolute().parent.is_dir():
            raise UsageError(f"{os.fspath(file)}: there is no such folder")
