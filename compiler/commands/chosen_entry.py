"""The entry and the binding of a view."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import UsageError
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence
from prograd_proto.spelling import closest, closest_or_all
from prograd_proto.text.words import name as in_words


def chosen_entry(path: str, program: pb.ProgramDesc, name: str | None) -> pb.EntryDesc:
    """Return the entry of that name; by default the one that the program runs, or else its first."""
    if not program.entries:
        raise ProgramError(f"{path}: the program has no entry")
    entries = {entry.name: entry for entry in program.entries}
    if name is None:
        return entries.get(program.run.entry, program.entries[0])
    if name not in entries:
        raise UsageError(f"{path}: there is no entry {name!r}{closest_or_all(name, entries, 'its entries are')}")
    return entries[name]


def chosen_binding(path: str, program: pb.ProgramDesc, name: str | None, bind: Sequence[str]) -> tuple[str, pb.Binding]:
    """Return the first binding of an entry to these sizes, and both in words: `train with {batch=32}`."""
    entry = chosen_entry(path, program, name)
    if not entry.bindings:
        raise ProgramError(f"{path}: the entry {entry.name!r} has no block that runs; compile the program")
    wanted = sizes_given(bind)
    known = dict.fromkeys(dim.symbol for binding in entry.bindings for dim in binding.dims)
    for symbol in wanted:
        if symbol not in known:
            raise UsageError(f"{path}: the entry {entry.name!r} has no symbol {symbol!r}{closest(symbol, known)}")
    for binding in entry.bindings:
        if wanted.items() <= {dim.symbol: dim.size for dim in binding.dims}.items():
            return binding_in_words(entry.name, binding), binding
    asked = ", ".join(f"{in_words(symbol)}={size}" for symbol, size in wanted.items())
    there = " and ".join(f"{{{_sizes_in_words(binding)}}}" for binding in entry.bindings)
    raise UsageError(f"{path}: the entry {entry.name!r} is not bound to {{{asked}}}; it is to {there}")


def several_sizes_given(bind: Sequence[str]) -> dict[str, int | list[int]]:
    """Return the sizes of symbols from words: `batch=64`, or `batch=64,17` for a last step of 17 rows."""
    found: dict[str, int | list[int]] = {}
    for text in bind:
        symbol, _, sizes = text.partition("=")
        if "," in sizes:
            found[symbol] = [sizes_given([f"{symbol}={size}"])[symbol] for size in sizes.split(",")]
        else:
            found |= sizes_given([text])
    return found


def sizes_given(bind: Sequence[str], option: str = "--bind", form: str = "symbol=size") -> dict[str, int]:
    """Return the sizes of symbols from words such as `batch=64`."""
    sizes: dict[str, int] = {}
    for text in bind:
        symbol, _, size = text.partition("=")
        if not (size.isascii() and size.isdecimal() and len(size) <= 18):
            raise UsageError(f"{option} {text}: write {form}, as in batch=64")
        sizes[symbol] = int(size)
    return sizes


def binding_in_words(name: str, binding: pb.Binding) -> str:
    """Return an entry's name and the sizes of the binding."""
    sizes = _sizes_in_words(binding)
    entry = sentence(in_words(name), MAX_WORD_CHARACTERS)
    return f"{entry} with {{{sizes}}}" if sizes else entry


def _sizes_in_words(binding: pb.Binding) -> str:
    return sentence(", ".join(f"{in_words(dim.symbol)}={dim.size}" for dim in binding.dims), MAX_WORD_CHARACTERS)
