"""How many rows a training step takes: the sizes that a program is bound to, and the rows left at the end of an epoch.

1. The rows of an epoch are those of the split that the program runs on, counted as the runtime counts them.
2. What full steps leave of them is the last batch. A binding of the training entry for so many rows makes its step.
3. How many rows there are is known when the data file lies beside the program: when that is saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from compiler.build.columns import data_files
from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.lifespans import trains

Sizes = Mapping[str, int | Sequence[int]]
"""Sizes of symbols: of the one that counts rows there may be several."""


def each(given: int | Sequence[int]) -> list[int]:
    """The sizes that are given for a symbol, as they are."""
    return list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportReturnType]: all that else is a number


def in_order(given: int | Sequence[int]) -> list[int]:
    """The sizes of a symbol, the largest first."""
    return sorted(set(each(given)), reverse=True)


def sizes_of(program: pb.ProgramDesc) -> dict[str, int | Sequence[int]]:
    """The sizes that a program is bound to, as `compile_program` takes them."""
    sizes: dict[str, list[int]] = {}
    for entry in program.entries:
        several = trains(program, program.blocks[entry.source_block])
        for binding in entry.bindings if several else entry.bindings[:-1] or entry.bindings:  # the last: single rows
            for dim in binding.dims:
                sizes.setdefault(dim.symbol, []).append(dim.size)
    return {symbol: found[0] if len(set(found)) == 1 else found for symbol, found in sizes.items()}


def with_last_batch(program: pb.ProgramDesc, sizes: Sizes, folder: Path) -> Sizes:
    """The sizes, with that of the last batch if the program trains on one.

    Raises CompileError if the data file in the folder cannot be read, or does not have the rows.
    """
    rows = row_symbol(program)
    if program.data.remainder != pb.REMAINDER_PARTIAL or rows is None or rows not in sizes:
        return sizes
    batches = in_order(sizes[rows])
    left = rows_of_epoch(program, folder) % batches[0]
    return sizes if left in (0, *batches) else {**sizes, rows: [*batches, left]}


def rows_of_epoch(program: pb.ProgramDesc, folder: Path) -> int:
    """How many rows training reads in an epoch. Raises CompileError if the data file does not say so."""
    from runtime.errors import DataError
    from runtime.files.tensor_files import shapes_of  # brings NumPy, and few programs have a last batch

    data = program.data
    name = program.run.split or "train"
    split = next((split for split in data.splits if split.name == name), pb.SplitDesc())
    by_key = split.WhichOneof("selection") == "key"
    key = split.key if by_key else data.columns[0].key
    count = 0
    for name in data_files(program, folder):
        try:
            shape = shapes_of(folder / name, [key])[key]
        except DataError as error:
            what = "how many rows are left for the last step of an epoch is read from it"
            raise CompileError(f"{error}; {what}") from None
        if not shape:
            raise CompileError(f"{folder / name}: {data.columns[0].key!r} has no rows")
        count += shape[0]
    return count if by_key else len(range(split.rows.start, split.rows.stop or count, split.rows.stride or 1))


def row_symbol(program: pb.ProgramDesc) -> str | None:
    """The symbol that is the leading extent of every fed tensor, if there is one: the number of rows."""
    leading: set[str] = set()
    for entry in program.entries:
        block = program.blocks[entry.source_block]
        fed = {p.tensor for p in block.parameters if p.WhichOneof("source") == "feed"}
        shapes = [tensor.shape.dims for tensor in block.tensors if tensor.name in fed]
        leading |= {dims[0].symbol if len(dims) else "" for dims in shapes}
    return leading.pop() if len(leading) == 1 and "" not in leading else None
