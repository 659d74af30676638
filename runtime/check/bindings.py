"""A bound block against the source block of its entry: the same feeds and fetches, with sizes for symbols."""

from __future__ import annotations

from functools import cache

from prograd_proto import ProgramError, TensorType, type_of
from prograd_proto import program_pb2 as pb
from runtime.contract import require

Interface = dict[str, tuple[TensorType, int]]
"""The type of each feed and fetch of a block, and the way in which batches combine it."""


def check_bindings(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless the block of each binding has the feeds and fetches of its source.

    The blocks themselves must be checked already. The symbols of the source count the rows of the block that runs, so
    they must describe it correctly. A block that is bound several times is read once: sizes of symbols that do not
    occur in the feeds and fetches of the source change nothing.
    """

    @cache
    def interface_of(number: int) -> Interface:
        return _interface(program.blocks[number])

    @cache
    def symbols_of(number: int) -> frozenset[str]:
        types = (type for type, _ in interface_of(number).values())
        return frozenset(extent for type in types for extent in type.shape if isinstance(extent, str))

    done: set[tuple[object, ...]] = set()
    for entry in program.entries:
        for binding in entry.bindings:
            try:
                found, wanted = interface_of(binding.block), interface_of(entry.source_block)
                symbols = symbols_of(entry.source_block)
            except ProgramError as error:
                raise ProgramError(f"entry {entry.name!r}: {error}") from None
            sizes = {dim.symbol: dim.size for dim in binding.dims if dim.symbol in symbols}
            key = entry.source_block, binding.block, frozenset(sizes.items())
            if key not in done:
                done.add(key)
                bound = {name: (type.bound(sizes), over) for name, (type, over) in wanted.items()}
                _compare(entry, binding, found, bound)


def _compare(entry: pb.EntryDesc, binding: pb.Binding, found: Interface, wanted: Interface) -> None:
    for name in [*wanted, *found]:
        same = wanted.get(name) == found.get(name)
        require(same, f"entry {entry.name!r}: {name} of block {binding.block} is not as in the source, with its sizes")


def _interface(block: pb.BlockDesc) -> Interface:
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    rows = [(f"the feed {p.feed!r}", p.tensor, 0) for p in block.parameters if p.WhichOneof("source") == "feed"]
    rows += [(f"the fetch {fetch.name!r}", fetch.tensor, int(fetch.over)) for fetch in block.fetches]
    for what, tensor, _ in rows:
        require(tensor in types, f"{what} of the source is %{tensor}, which is not described")
    return {what: (types[tensor], over) for what, tensor, over in rows}
