"""A batch prediction by the workers of a Dask cluster: each part is a process of `runtime execute` there.

Dask gives the part of a worker that was lost to another one. Workers need prograd, the program and its files, under the
same names as here, and compute with the engine and the instruction set of this process.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from runtime.commands.parts.part import require_rows, steps_of_rows
from runtime.commands.sweeps.cluster import Cluster, runtime_process
from runtime.commands.verbs.running import EXECUTE
from runtime.dtypes import Array
from runtime.errors import ExecutionError, UsageError
from runtime.files.tensor_files import parse_npy
from runtime.rows.rows import Rows
from runtime.runs.run import Run

PARTS_PER_CORE: Final = 4
"""Parts for each thread of the workers, so that one lost or slow worker delays little."""


def by_cluster(
    options: argparse.Namespace, run: Run, entry: str, rows: Rows, fetch: Sequence[str], between: Callable[[], None]
) -> tuple[dict[str, Array], int]:
    """Return the fetches over all rows, and the number of steps.

    Raises UsageError if the results of the entry are not those of rows, ExecutionError if a part failed.
    """
    session = run.session
    require_rows(session, entry, rows)
    bound = session.bindings(entry)[0]
    for name in fetch:
        if name not in bound.row_names:
            raise UsageError(f"--scheduler: {name!r} does not count rows, so the parts cannot be joined")
    names = list(dict.fromkeys([*(f.name for f in bound.block.fetches), *fetch]))
    cluster = Cluster(options.scheduler)
    steps = steps_of_rows(bound, rows)
    parts = min(steps, PARTS_PER_CORE * cluster.cores)
    words = _words(options, run, entry)
    try:
        numbers = range(1, parts + 1)
        futures = [cluster.start(compute_part, os.getcwd(), [*words, f"{i}/{parts}"], names) for i in numbers]
        found = [checked(cluster.result(future, between), i, parts) for i, future in zip(numbers, futures, strict=True)]
    finally:
        cluster.end()
    nbytes = sum(len(content) for part in found for content in part.values())
    session.memory.take(2 * nbytes, "the results of the parts")
    arrays = {name: np.concatenate([_array(part[name]) for part in found]) for name in names}
    return arrays, steps


def compute_part(folder: str, words: Sequence[str], names: Sequence[str]) -> tuple[int, str, dict[str, bytes]]:
    """Compute a part on a worker; return the exit code, what it said on stderr, and the .npy file of each fetch."""
    with TemporaryDirectory() as there:
        files = {name: Path(there) / f"{number}.npy" for number, name in enumerate(names)}
        asked = [word for name, file in files.items() for word in ("--fetch", f"{name}=@{file}")]
        done = runtime_process(folder, [*words, *asked])
        found = {} if done.returncode else {name: file.read_bytes() for name, file in files.items()}
    return done.returncode, done.stderr, found


def _words(options: argparse.Namespace, run: Run, entry: str) -> list[str]:
    """Return the words of a part; its number follows."""
    engine = run.session.engine
    name = f"{engine.name}.{engine.instructions}" if engine.instructions else engine.name
    words = EXECUTE.passed(options, entry=entry, engine=name, threads="1")
    return ["execute", str(options.program), *words, "--part"]


def checked(part: tuple[int, str, Mapping[str, bytes]], number: int, parts: int) -> Mapping[str, bytes]:
    """Return the files of a part; raise ExecutionError with its last message if it failed."""
    code, said, found = part
    if code:
        lines = said.strip().splitlines() or [f"it ended with code {code}"]
        raise ExecutionError(f"part {number} of {parts} failed: {lines[-1].removeprefix('runtime: ')}")
    return found


def _array(content: bytes) -> Array:
    return parse_npy(BytesIO(content), len(content))
