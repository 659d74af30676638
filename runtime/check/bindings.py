"""A bound block against the source block of its entry: the same feeds and fetches, with sizes for symbols."""

from __future__ import annotations

from prograd_proto import ProgramError, TensorType, type_of
from prograd_proto import program_pb2 as pb
from runtime.kernel import require


def check_binding(program: pb.ProgramDesc, entry: pb.EntryDesc, binding: pb.Binding) -> None:
    """Raise ProgramError unless a binding's block, itself checked, feeds and fetches what its entry's source does.

    Rows are counted by the source's symbols, so these must tell the truth about the block that runs.
    """
    source, block = program.blocks[entry.source_block], program.blocks[binding.block]
    sizes = {dim.symbol: dim.size for dim in binding.dims}
    try:
        found, wanted = _interface(block, {}), _interface(source, sizes)
    except ProgramError as error:
        raise ProgramError(f"entry {entry.name!r}: {error}") from None
    for name in [*wanted, *found]:
        same = wanted.get(name) == found.get(name)
        require(same, f"entry {entry.name!r}: {name} of block {binding.block} is not as in the source, with its sizes")


def _interface(block: pb.BlockDesc, sizes: dict[str, int]) -> dict[str, tuple[TensorType, int]]:
    """What each feed and fetch of a block is: its type with these sizes, how it combines."""
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    rows = [(f"the feed {p.feed!r}", p.tensor, 0) for p in block.parameters if p.WhichOneof("source") == "feed"]
    rows += [(f"the fetch {fetch.name!r}", fetch.tensor, int(fetch.over)) for fetch in block.fetches]
    for what, tensor, _ in rows:
        require(tensor in types, f"{what} of the source is %{tensor}, which is not described")
    return {what: (_with_sizes(types[tensor], sizes), over) for what, tensor, over in rows}


def _with_sizes(type: TensorType, sizes: dict[str, int]) -> TensorType:
    return TensorType(type.dtype, tuple(sizes.get(d, d) if isinstance(d, str) else d for d in type.shape))
