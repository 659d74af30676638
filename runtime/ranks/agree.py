"""The comparison of everything that ranks must have in common before the first step."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from runtime.blas import blas_core
from runtime.errors import UsageError
from runtime.ranks.group import Group

if TYPE_CHECKING:
    from runtime.runs.session import Session


def agree(group: Group, session: Session, position: int, options: Mapping[str, object]) -> None:
    """Raise UsageError unless all ranks make the same run.

    Args:
        group: the ranks.
        session: the program with its states as they are before the first step.
        position: number of steps that were made.
        options: options that the run depends on, by the words of the command.
    """
    import numpy as np

    engine = session.engine
    facts: dict[str, object] = {
        "the program": session.sha256,
        "the file of the program": sha256(session.program.SerializeToString(deterministic=True)).hexdigest(),
        "the engine": f"{engine.name}.{engine.instructions}" if engine.instructions else engine.name,
        "the version of NumPy": np.__version__,
        "the core of NumPy's BLAS": blas_core(),
        **options,
        "the position": f"step {position}",
    }
    if session.states.pieces is None:
        require_alike(group, facts | {"the states": session.states.sha256()})
        return
    require_alike(group, facts)  # before pieces are sent, whose sizes must fit
    require_alike(group, {"the states": session.states.sha256()})


def require_alike(group: Group, facts: Mapping[str, object]) -> None:
    """Raise UsageError unless all ranks give the same values; the names are nouns with their article."""
    everyone = [json.loads(text) for text in group.gather(json.dumps(facts, default=str).encode())]
    for name, value in everyone[0].items():
        for rank, others in enumerate(everyone):
            if others.get(name) != value:
                raise UsageError(
                    f"the processes differ in {name}: rank 0 has {_short(value)}, rank {rank} "
                    f"{_short(others.get(name))}{_remedy(name)}"
                )


def _short(value: object) -> str:
    """Return a value as text, with 12 digits of each hash."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1…", str(value))


def _remedy(name: str) -> str:
    remedies = {
        "the engine": "; --engine native.avx2, or another that all machines have, makes them equal",
        "the core of NumPy's BLAS": "; --engine native.avx2 computes without it",
        "the states": "; give all of them the same --seed, --load and checkpoints",
        "the position": "; the folder of checkpoints must be one that all machines share",
        "the rows": "; give all of them the same data",
    }
    return remedies.get(name, "; start all of them by one command, with one copy of the files")
