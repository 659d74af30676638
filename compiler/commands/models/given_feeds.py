"""Feeds from files, NAME=@FILE.npy or all arrays of a safetensors or npz file, and random ones."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compiler.errors import DataError, UsageError
from prograd_proto.regular_files import open_regular
from runtime.errors import OutOfRange


@contextmanager
def random_feeds() -> Generator[None]:
    """Add to the error of an index that is out of range that a file may give the integers."""
    try:
        yield
    except OutOfRange as error:
        fault, _, _ = str(error).partition("; ")  # the rest is about a table that is too small for its rows
        told = f"{fault}; the integers of the inputs are random, so give them by --feed NAME=@FILE"
        raise OutOfRange(told, error.number, error.op, error.place) from None


def given_feeds(words: list[str]) -> dict[str, Any]:
    """Return arrays by name; raise UsageError or DataError for words and files that are not arrays."""
    from runtime.files.tensor_files import keys_of, parse_npy, read_arrays, unverified

    made: dict[str, Any] = {}
    for word in words:
        name, sign, file = word.rpartition("=")
        path = Path(file := file.removeprefix("@"))
        if not os.path.lexists(path):
            raise DataError(f"--feed {word}: there is no file {file}")
        if path.suffix == ".npy" and sign:
            try:
                with open_regular(path) as stream:
                    made[name] = parse_npy(stream, path.stat().st_size)
            except OSError as error:
                raise DataError(f"--feed {word}: the file cannot be read: {error.strerror}") from None
            except ValueError as error:
                raise DataError(f"--feed {word}: {error}") from None
        elif path.suffix in (".safetensors", ".npz") and not sign:
            with unverified(path) as reader:
                made |= read_arrays(path, reader, keys_of(path))
        else:
            raise UsageError(f"--feed {word}: write NAME=@FILE.npy, or a file .safetensors or .npz with all arrays")
    return made
