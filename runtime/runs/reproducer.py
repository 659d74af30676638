"""A failed step as a program of its own: a file, with the states at its start and its rows beside it.

`runtime execute` runs it without options, and its first step is that step. All states are read from a file, the run has
the same total number of steps, and the data has exactly those rows, in their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of, save
from prograd_proto.regular_files import open_regular
from prograd_proto.settings import is_setting
from prograd_proto.states import trains
from runtime.conversion import handed_out
from runtime.dtypes import Array
from runtime.entries import bound_entries
from runtime.errors import DataError, FailedStep, UsageError
from runtime.files.tensor_files import write_npy, write_safetensors

PROGRAM, STATES, ROWS = "program.pb", "states.safetensors", "rows.safetensors"


def write_reproducer(
    program: pb.ProgramDesc, step: FailedStep, folder: str | Path, *, force: bool = False
) -> list[str]:
    """Write `program.pb`, `states.safetensors` and `rows.safetensors` into a folder, which is created if missing.

    Feeds that have no rows cannot be columns of a data file. If there are any, every feed is a .npy file instead.
    Return the options that `runtime execute` needs for them, or an empty list.

    Raises UsageError if files of these names exist and not `force`, or the folder cannot be created; ResourceLimit if
    the disk is full, DataError if a file cannot be written.
    """
    folder = Path(folder)
    require_folder(folder, force=force)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: the folder cannot be made: {error.strerror or error}") from None
    entry = _entry_of(program, step.block)
    made = copy_of(program)
    del made.files[:]
    _begin_with(made, step.states)
    write_safetensors(folder / STATES, step.states, {}, force=force)
    _add_file(made, folder / STATES)
    options = _feed(made, entry, step.feeds, folder, force=force)
    _run_once(made, entry, step)
    try:
        save(made, folder / PROGRAM, force=force)
    except ProgramError as error:
        raise DataError(str(error)) from None
    return options


def require_folder(folder: Path, *, force: bool) -> None:
    """Raise UsageError unless a reproducer can be written there."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: this is a file, and a reproducer is a folder; name another one")
    if not folder.absolute().parent.is_dir():
        raise UsageError(f"{folder}: there is no folder to make it in")
    if not force and any((folder / name).exists() for name in (PROGRAM, STATES, ROWS)):
        raise UsageError(f"{folder}: a reproducer is there already; --force replaces it")


def _entry_of(program: pb.ProgramDesc, block: pb.BlockDesc) -> str:
    """Return the name of the entry that runs the block, or an equal one."""
    names = [e.name for e in program.entries for binding in e.bindings if program.blocks[binding.block] == block]
    if not names:
        raise UsageError("the step is of another program")
    return names[0]


def _begin_with(program: pb.ProgramDesc, states: Mapping[str, Array]) -> None:
    """Give every state an initial value from the file of states, but for seed and settings, which the program has."""
    program.seed = int(states["seed"])
    for state in program.states:
        if is_setting(state):
            state.op.attributes[1].float_value = float(states[state.name])  # of `full`: shape, value, dtype
        elif state.name != "seed":
            state.external.path, state.external.key = STATES, state.name


def _feed(program: pb.ProgramDesc, entry: str, feeds: Mapping[str, Array], folder: Path, *, force: bool) -> list[str]:
    """Let the program read the feeds from a file of rows, or else write them one by one and return the options."""
    by_row = all(feed.by_row for feed in bound_entries(program, entry)[0].feeds.values())
    program.ClearField("data")
    if by_row and feeds:
        write_safetensors(folder / ROWS, feeds, {}, force=force)
        _add_file(program, folder / ROWS)
        program.data.file, program.data.format = ROWS, pb.DATA_FORMAT_SAFETENSORS
        program.data.remainder = pb.REMAINDER_EXACT
        program.data.columns.extend(pb.ColumnDesc(feed=name, key=name) for name in feeds)
        return []
    options: list[str] = []
    for i, (name, array) in enumerate(feeds.items()):
        path = folder / f"feed{i}.npy"
        write_npy(path, handed_out(array), force=force)
        options += ["--feed", f"{name}=@{path}"]
    return options


def _run_once(program: pb.ProgramDesc, entry: str, step: FailedStep) -> None:
    """Let the program run the entry, with epochs of one step, as many as the run's total number of steps."""
    program.ClearField("run")
    program.run.entry, program.run.split = entry, "train"
    program.run.epochs = max(1, int(step.states["total_steps"])) if trains(program, step.block) else 1


def _add_file(program: pb.ProgramDesc, path: Path) -> None:
    with open_regular(path) as stream:
        digest = hashlib.file_digest(stream, "sha256").digest()
    program.files.add(path=path.name, bytes=path.stat().st_size, sha256=digest)
