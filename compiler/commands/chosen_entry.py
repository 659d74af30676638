"""The entry that a view is of."""

from __future__ import annotations

from compiler.plugins import require_used
from compiler.verify import verify
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load
from prograd_proto.spelling import closest
from prograd_proto.text.words import name as in_words


def well_formed(path: str) -> pb.ProgramDesc:
    """The program of a file, verified."""
    program = load(path)
    try:
        require_used(program)
        verify(program)
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None
    return program


def chosen_entry(path: str, program: pb.ProgramDesc, name: str | None) -> pb.EntryDesc:
    """The entry of that name; unless given, the one that the program runs, or else its first."""
    if not program.entries:
        raise ProgramError(f"{path}: the program has no entry")
    entries = {entry.name: entry for entry in program.entries}
    if name is None:
        return entries.get(program.run.entry, program.entries[0])
    if name not in entries:
        raise ProgramError(f"{path}: there is no entry {name!r}{closest(name, entries)}")
    return entries[name]


def chosen_binding(path: str, program: pb.ProgramDesc, name: str | None) -> tuple[str, pb.Binding]:
    """The first binding of an entry, and both in words: `train with {batch=32}`."""
    entry = chosen_entry(path, program, name)
    if not entry.bindings:
        raise ProgramError(f"{path}: the entry {entry.name!r} has no block that runs; compile the program")
    return binding_in_words(entry.name, entry.bindings[0]), entry.bindings[0]


def binding_in_words(name: str, binding: pb.Binding) -> str:
    """An entry's name and the sizes that it is bound to."""
    sizes = ", ".join(f"{in_words(dim.symbol)}={dim.size}" for dim in binding.dims)
    return f"{in_words(name)} with {{{sizes}}}" if sizes else in_words(name)
