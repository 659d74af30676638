"""Entries as the runtime sees them: the bound blocks, their feeds, and the axis that counts rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from prograd_proto import ProgramError, TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.entry_views import NO_NAMES, SpelledNames
from prograd_proto.spelling import closest_or_all
from runtime.errors import UsageError


class Feed(NamedTuple):
    """A tensor that is fed; `by_row` is True if its leading extent is the number of rows of a step."""

    name: str
    type: TensorType
    by_row: bool


class BoundEntry(NamedTuple):
    """One binding of an entry, ready to be placed.

    `rows` is the number of rows that a step takes: 1 where nothing counts rows. `row_names` are the fetches, and other
    tensors, whose leading extent is the number of rows in the source block. The block that runs does not tell this: one
    of its tensors may stand for several. `lengths` are the sizes of all symbols but that of rows, `types` the types of
    the block's tensors. `names` are the spellings of the file that the program was imported from.
    """

    name: str
    number: int  # number of the block in the program
    block: pb.BlockDesc
    plan: pb.MemoryPlan | None
    rows: int
    feeds: dict[str, Feed]
    row_names: frozenset[str]
    lengths: tuple[tuple[str, int], ...] = ()
    types: Mapping[str, TensorType] = MappingProxyType({})
    names: SpelledNames = NO_NAMES


def find_entry(program: pb.ProgramDesc, name: str) -> pb.EntryDesc:
    """Return the entry of that name; raise UsageError if there is none."""
    for entry in program.entries:
        if entry.name == name:
            return entry
    names = [entry.name for entry in program.entries]
    hint = closest_or_all(name, names, "the entries are")
    if name == "predict":
        hint += "; program.outputs(…) declares the results of a prediction"
    raise UsageError(f"there is no entry {name!r}{hint}")


def bound_entries(program: pb.ProgramDesc, name: str) -> list[BoundEntry]:
    """Return the bindings of an entry, by falling length and, for equal lengths, by falling number of rows.

    Raises UsageError if there is no such entry, ProgramError if it has no bindings.
    """
    entry = find_entry(program, name)
    if not entry.bindings:
        raise ProgramError(f"entry {name!r} has no sizes yet; compile the program")
    symbol = _row_symbol(program.blocks[entry.source_block])
    found = [_bound(program, entry, binding, symbol) for binding in entry.bindings]
    return sorted(found, key=lambda bound: ([-size for _, size in bound.lengths], -bound.rows))


def _row_symbol(source: pb.BlockDesc) -> str | None:
    """Return the one symbol that leads the shapes of fed tensors, or None."""
    tensors = {tensor.name: tensor for tensor in source.tensors}
    shapes = [type_of(tensors[p.tensor]).shape for p in source.parameters if p.WhichOneof("source") == "feed"]
    leading = {shape[0] for shape in shapes if shape and isinstance(shape[0], str)}
    return str(leading.pop()) if len(leading) == 1 else None


def _bound(program: pb.ProgramDesc, entry: pb.EntryDesc, binding: pb.Binding, symbol: str | None) -> BoundEntry:
    block, source = program.blocks[binding.block], program.blocks[entry.source_block]
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    tensor_of = {p.feed: p.tensor for p in block.parameters if p.WhichOneof("source") == "feed"}
    if symbol is not None:
        rows = next((dim.size for dim in binding.dims if dim.symbol == symbol), 1)
        led = {t.name for t in source.tensors if t.shape.dims and t.shape.dims[0].symbol == symbol}
    else:
        columns = {column.feed for column in program.data.columns} or set(tensor_of)
        led = {tensor for feed, tensor in tensor_of.items() if feed in columns}
        rows = _shared_extent(types[tensor] for tensor in led)
        led = led if rows else set[str]()
    feeds = {name: Feed(name, types[tensor], tensor in led) for name, tensor in tensor_of.items()}
    plan = binding.plan if binding.HasField("plan") else None
    lengths = tuple((dim.symbol, dim.size) for dim in binding.dims if symbol is not None and dim.symbol != symbol)
    return BoundEntry(
        entry.name,
        binding.block,
        block,
        plan,
        rows or 1,
        feeds,
        _row_names(source, led),
        lengths,
        types,
        SpelledNames(program),
    )


def _row_names(source: pb.BlockDesc, led: set[str]) -> frozenset[str]:
    """Return the names by which tensors of the source can be fetched, including the fetches that it declares."""
    declared = {fetch.name: fetch.tensor for fetch in source.fetches}
    return frozenset(led - declared.keys()) | {name for name, tensor in declared.items() if tensor in led}


def _shared_extent(types: Iterable[TensorType]) -> int:
    """Return the leading extent that all types share, or 0 if they differ."""
    extents = {type.static_shape[0] if type.rank else 0 for type in types}
    return extents.pop() if len(extents) == 1 else 0
