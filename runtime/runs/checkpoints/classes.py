"""Hashes of the classes and words that a program's numbers stand for: states fit no program with others."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb

_log = logging.getLogger("prograd")

SHOWN: Final = 8
"""Number of classes that a sentence lists."""


def class_hashes(program: pb.ProgramDesc) -> dict[str, str]:
    """Return a hash of the classes, or words, of each column that the program encodes by a list of them."""
    return {name: _hash(values) for name, values in _classes(program).items()}


def warn_of_other_classes(program: pb.ProgramDesc, path: Path, about: Mapping[str, Any]) -> None:
    """Log a warning for each column whose classes are not those that a file was trained with.

    Args:
        program: the program that has loaded the file.
        path: path of the file.
        about: the description in the file.
    """
    then: Mapping[str, object] = about.get("classes", {})
    for name, values in _classes(program).items() if then else ():
        if then.get(name, _hash(values)) != _hash(values):
            _log.warning(
                "%s was trained with other classes of %r than the program has (%s), so its numbers stand for other "
                "values; pack rows with the classes of before by --like, or like=",
                path,
                name,
                ", ".join(values[:SHOWN]) + ", …" * (len(values) > SHOWN),
            )


def _classes(program: pb.ProgramDesc) -> dict[str, tuple[str, ...]]:
    if not program.data.encoding:
        return {}
    from runtime.rows.encoding.encoding import Encoding  # few runs have tables: start-up time

    try:
        encoding = Encoding.of_program(program)
    except ProgramError:  # reading rows reports it
        return {}
    return {} if encoding is None else {name: c.values for name, c in encoding.columns.items() if c.values}


def _hash(values: tuple[str, ...]) -> str:
    return sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()[:16]
