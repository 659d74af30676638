"""Sizes that a program is bound to, and the rows left at the end of an epoch.

1. The rows of an epoch are those of the split that the program runs on, counted as the runtime counts them.
2. The rows that do not fill a step are the last batch. A binding of the training entry for their number makes its step.
3. The number of rows is known where the data file is there: `compile` looks for it in a folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from compiler.build.columns import data_files, unnamed_input
from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.ragged_names import OFFSETS, base_of
from prograd_proto.states import trains

Sizes = Mapping[str, int | Sequence[int]]
"""Sizes of symbols; a symbol may have several: numbers of rows, or lengths of rows."""


def each(given: int | Sequence[int]) -> list[int]:
    """Return the sizes of a symbol as a list, in their order."""
    return list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportReturnType]: all that else is a number


def in_order(given: int | Sequence[int]) -> list[int]:
    """Return the sizes of a symbol, the largest first."""
    return sorted(set(each(given)), reverse=True)


def sizes_of(program: pb.ProgramDesc) -> dict[str, int | Sequence[int]]:
    """Return the sizes that a program is bound to, as arguments of `compile_program`."""
    sizes: dict[str, list[int]] = {}
    rows = row_symbol(program)
    for entry in program.entries:
        trained = trains(program, program.blocks[entry.source_block])
        for number, binding in enumerate(entry.bindings):
            for dim in binding.dims:
                if trained or not number or dim.symbol != rows or dim.size > 1:  # single rows are not requested sizes
                    sizes.setdefault(dim.symbol, []).append(dim.size)
    return {symbol: found[0] if len(set(found)) == 1 else found for symbol, found in sizes.items()}


def with_last_batch(program: pb.ProgramDesc, sizes: Sizes, folder: Path) -> Sizes:
    """Return the sizes, and the size of the last batch if the program trains on one and its rows are in the folder.

    Raises CompileError if the data file in the folder cannot be read, or does not have the rows.
    """
    rows = row_symbol(program)
    if program.data.remainder != pb.REMAINDER_PARTIAL or rows is None or rows not in sizes:
        return sizes
    if not all((folder / name).is_file() for name in data_files(program, folder)):
        return sizes
    batches = in_order(sizes[rows])
    left = rows_of_epoch(program, folder) % batches[0]
    return sizes if left in (0, *batches) else {**sizes, rows: [*batches, left]}


def require_last_batch(program: pb.ProgramDesc, folder: Path) -> None:
    """Raise CompileError if the program trains on a last batch of the rows in a folder, and has no step for it."""
    sizes, rows = sizes_of(program), row_symbol(program)
    wanted = with_last_batch(program, sizes, folder)
    if wanted == sizes or rows is None:
        return
    *given, left = each(wanted[rows])
    count, batch = rows_of_epoch(program, folder), max(given)
    raise CompileError(
        f"{folder / program.data.file}: steps of {batch} leave {left} of {count} rows, and the program has no step of "
        f"{left}; compile it for both, as in compile({rows}=({batch}, {left})), or where the file is, as in "
        f"compile({rows}={batch}, folder={str(folder)!r})"
    )


def rows_of_epoch(program: pb.ProgramDesc, folder: Path) -> int:
    """Return the number of rows of a training epoch. Raise CompileError if the data file does not have it."""
    from runtime.errors import DataError

    data = program.data
    name = program.run.split or "train"
    split = next((split for split in data.splits if split.name == name), pb.SplitDesc())
    by_key = split.WhichOneof("selection") == "key"
    key = split.key if by_key else data.columns[0].key
    count = 0
    for name in data_files(program, folder):
        try:
            shape = _shape(folder / name, key)
        except DataError as error:
            raise CompileError(f"data: {error}{'' if by_key else unnamed_input(program, folder / name)}") from None
        if not shape:
            raise CompileError(f"{folder / name}: {data.columns[0].key!r} has no rows")
        count += shape[0]
    return count if by_key else len(range(split.rows.start, split.rows.stop or count, split.rows.stride or 1))


def _shape(path: Path, key: str) -> tuple[int, ...]:
    """Return the shape of a column; if its rows have unequal lengths, only their number."""
    from runtime.files.tensor_files import shapes_of  # brings NumPy, and few programs have a last batch

    base = base_of(key) or key
    offsets = shapes_of(path, [], [key + OFFSETS, base + OFFSETS])
    for count in offsets.values():
        return (count[0] - 1,) if count else count
    return shapes_of(path, [key])[key]


def row_symbol(program: pb.ProgramDesc) -> str | None:
    """Return the symbol of the number of rows; None if there is none.

    It is the leading extent of every fed tensor, except tensors without symbols, such as weights of classes.
    """
    leading: set[str] = set()
    for entry in program.entries:
        block = program.blocks[entry.source_block]
        fed = {p.tensor for p in block.parameters if p.WhichOneof("source") == "feed"}
        shapes = [tensor.shape.dims for tensor in block.tensors if tensor.name in fed]
        leading |= {dims[0].symbol for dims in shapes if any(dim.symbol for dim in dims)}
    return leading.pop() if len(leading) == 1 and "" not in leading else None
