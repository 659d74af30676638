"""Pass: make a static block of every binding.

1. The source blocks and the blocks inside their ops are not changed; all other blocks are replaced.
2. A binding's block is a copy of its entry's source block with every symbol replaced by its size, in the types of
   tensors and in the attributes that are shapes. So are the blocks inside its ops: each binding has its own.
3. A block without symbols is copied too, so later passes can be repeated on a fresh copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from compiler.errors import CompileError
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.files import copy_of
from prograd_proto.limits import MAX_BINDINGS
from prograd_proto.tensor_types import Shape, shape_message, shape_of, size_fault


def bind_dimensions(program: BlockAnalyses) -> None:
    """Make a static copy of each block for each binding of its symbols.

    Raises CompileError for a symbol without a size, and for too many sizes.
    """
    count = sum(len(entry.bindings) for entry in program.desc.entries)
    if count > MAX_BINDINGS:
        raise CompileError(f"the entries have {count} sizes in all; at most {MAX_BINDINGS} are supported")
    keep_sources(program)
    analyses = {number: program[number] for number in range(len(program))}
    for entry in program.desc.entries:
        for binding in entry.bindings:
            binding.ClearField("plan")
            sizes = {dim.symbol: dim.size for dim in binding.dims}
            numbers = program.with_sub_blocks([entry.source_block])
            now = {old: len(analyses) + i for i, old in enumerate(numbers)}
            binding.block = now[entry.source_block]
            for old, new in now.items():
                analyses[new] = analyses[old].copied_to(program.desc.blocks.add())
                _name_sub_blocks(analyses[new], now)
                _bind(analyses[new], sizes, entry.name)
    program.put(analyses)


def keep_sources(program: BlockAnalyses) -> None:
    """Delete all blocks but the source blocks and those inside their ops."""
    desc = program.desc
    numbers = program.with_sub_blocks(program.sources)
    if numbers == [*range(len(numbers))]:
        del desc.blocks[len(numbers) :]
        program.put({number: program[number] for number in numbers})
        return
    now = {old: new for new, old in enumerate(numbers)}
    kept = [copy_of(desc.blocks[number]) for number in numbers]
    del desc.blocks[:]
    desc.blocks.extend(kept)
    program.put({})
    for entry in desc.entries:
        entry.source_block = now[entry.source_block]
    for number in range(len(program)):
        _name_sub_blocks(program[number], now)


def only_sources(program: BlockAnalyses) -> None:
    """Delete the bindings, and all blocks but the source blocks and those inside their ops."""
    for entry in program.desc.entries:
        del entry.bindings[:]
    keep_sources(program)


def bind_block(op: pb.OpDesc, built: pb.OpDesc, program: pb.ProgramDesc, sizes: Mapping[str, int], entry: str) -> None:
    """Bind the attributes of a copy of an op, and the blocks inside it, to other sizes; the copy is edited in place.

    Args:
        op: the copy, of a bound op.
        built: the op of the source block, with symbols.
        program: gets the blocks inside the copy.
        sizes: sizes by symbol.
        entry: name of the entry, for errors.
    """
    for attribute, symbolic in zip(op.attributes, built.attributes, strict=True):
        if symbolic.HasField("shape_value"):
            bound = _with_sizes(shape_of(symbolic.shape_value), sizes, entry)
            attribute.shape_value.CopyFrom(shape_message(bound))
    for i, number in enumerate(built.blocks):
        op.blocks[i] = len(program.blocks)
        inner = program.blocks.add()
        inner.CopyFrom(program.blocks[number])
        for tensor in inner.tensors:
            tensor.shape.CopyFrom(shape_message(_with_sizes(shape_of(tensor.shape), sizes, entry)))
        for own, source in zip(inner.ops, program.blocks[number].ops, strict=True):
            bind_block(own, source, program, sizes, entry)


def symbols_of(program: BlockAnalyses, number: int) -> list[str]:
    """Return the symbols of a block and of the blocks inside its ops, in order of appearance."""
    symbols: dict[str, None] = {}
    for each in program.with_sub_blocks([number]):
        block = program[each]
        for type in dict.fromkeys(block.types.values()):
            symbols.update(dict.fromkeys(_symbols(type.shape)))
        for attribute in dict.fromkeys(chain.from_iterable(block.attributes)):
            symbols.update(dict.fromkeys(_symbols(_shape(attribute))))
    return list(symbols)


def _bind(block: BlockAnalysis, sizes: Mapping[str, int], entry: str) -> None:
    now = {type: _static(type, sizes, entry) for type in dict.fromkeys(block.types.values())}
    _require_addressable(block, now, entry)
    block.retype(now)
    shapes = {attribute for attribute in set(chain.from_iterable(block.attributes)) if _symbols(_shape(attribute))}
    for i, attributes in enumerate(block.attributes) if shapes else ():
        if not shapes.isdisjoint(attributes):
            for attribute in block.ops[i].attributes:
                if attribute.HasField("shape_value"):
                    bound = _with_sizes(shape_of(attribute.shape_value), sizes, entry)
                    attribute.shape_value.CopyFrom(shape_message(bound))
            block.read_again(i)


def _static(type: TensorType, sizes: Mapping[str, int], entry: str) -> TensorType:
    return TensorType(type.dtype, _with_sizes(type.shape, sizes, entry)) if _symbols(type.shape) else type


def _with_sizes(shape: Shape, sizes: Mapping[str, int], entry: str) -> Shape:
    for symbol in _symbols(shape):
        if symbol not in sizes:
            raise CompileError(f"entry {entry!r}: the symbol {symbol!r} has no size; bind it, as in {symbol}=32")
    return tuple(sizes[extent] if isinstance(extent, str) else extent for extent in shape)


def _require_addressable(block: BlockAnalysis, now: Mapping[TensorType, TensorType], entry: str) -> None:
    """Raise CompileError for a tensor too large for any run: the offsets of a plan have 64 bits."""
    too_large = {old for old, type in now.items() if size_fault(type)}
    for name, type in block.types.items() if too_large else ():
        if type in too_large:
            raise CompileError(f"entry {entry!r}: %{name}: {now[type]} {size_fault(now[type])}")


def _symbols(shape: Shape) -> list[str]:
    return [extent for extent in shape if isinstance(extent, str)]


def _shape(attribute: bytes) -> Shape:
    """Return the value of a shape attribute; () for any other attribute."""
    desc = pb.AttrDesc.FromString(attribute)
    return shape_of(desc.shape_value) if desc.HasField("shape_value") else ()


def _name_sub_blocks(block: BlockAnalysis, now: Mapping[int, int]) -> None:
    for i, numbers in enumerate(block.blocks):
        if numbers:
            block.ops[i].blocks[:] = [now[number] for number in numbers]
            block.read_again(i)
