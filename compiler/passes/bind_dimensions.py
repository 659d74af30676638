"""Pass: make a static block of every binding.

1. The source blocks stay as they are; all other blocks are made anew.
2. A binding's block is a copy of its entry's source block with every symbol replaced by its size, in the types of
   tensors and in the attributes that are shapes. `verify` then infers every type again.
3. So it is without symbols, too: what the passes after this one do to a block that runs can be done anew.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from registry.ops.fill import MOST


def bind_dimensions(program: pb.ProgramDesc) -> None:
    """Make a static copy of each block for each binding of its symbols.

    Raises CompileError for a symbol without a size.
    """
    sources = list(dict.fromkeys(entry.source_block for entry in program.entries))
    blocks = [program.blocks[number] for number in sources]
    for entry in program.entries:
        entry.source_block = sources.index(entry.source_block)
        for binding in entry.bindings:
            binding.ClearField("plan")
            binding.block = len(blocks)
            sizes = {dim.symbol: dim.size for dim in binding.dims}
            blocks.append(_bound(blocks[entry.source_block], sizes, entry.name))
    kept = [_copy(block) for block in blocks]
    del program.blocks[:]
    program.blocks.extend(kept)


def only_sources(program: pb.ProgramDesc) -> None:
    """Leave out all blocks but those that were built, and the bindings to them."""
    sources = list(dict.fromkeys(entry.source_block for entry in program.entries))
    for entry in program.entries:
        del entry.bindings[:]
        entry.source_block = sources.index(entry.source_block)
    kept = [_copy(program.blocks[number]) for number in sources]
    del program.blocks[:]
    program.blocks.extend(kept)


def symbols_of(block: pb.BlockDesc) -> list[str]:
    """The symbols in a block's shapes, in the order of their first appearance."""
    return list(dict.fromkeys(symbol for shape in _shapes(block) for symbol in _symbols(shape.SerializeToString())))


def _bound(source: pb.BlockDesc, sizes: dict[str, int], entry: str) -> pb.BlockDesc:
    block = _copy(source)
    for shape in _shapes(block):
        for dim in shape.dims if _symbols(shape.SerializeToString()) else ():
            if dim.symbol:
                if dim.symbol not in sizes:
                    raise CompileError(
                        f"entry {entry!r}: the symbol {dim.symbol!r} has no size; bind it, as in {dim.symbol}=32"
                    )
                dim.size = sizes[dim.symbol]
    for tensor in block.tensors:
        _require_addressable(tensor, entry)
    return block


def _require_addressable(tensor: pb.TensorDesc, entry: str) -> None:
    """Raise CompileError for a tensor that no run can hold: the offsets of a plan have 64 bits."""
    if prod([dim.size for dim in tensor.shape.dims]) > MOST // 8 and type_of(tensor).nbytes > MOST:
        raise CompileError(f"entry {entry!r}: %{tensor.name} is {type_of(tensor)}, larger than a tebibyte")


@lru_cache(maxsize=1 << 16)  # a program has few different shapes and very many tensors
def _symbols(shape: bytes) -> tuple[str, ...]:
    return tuple(dim.symbol for dim in pb.Shape.FromString(shape).dims if dim.symbol)


def _shapes(block: pb.BlockDesc) -> list[pb.Shape]:
    of_tensors = [tensor.shape for tensor in block.tensors]
    return of_tensors + [a.shape_value for op in block.ops for a in op.attributes if a.HasField("shape_value")]


def _copy(block: pb.BlockDesc) -> pb.BlockDesc:
    result = pb.BlockDesc()
    result.CopyFrom(block)
    return result
