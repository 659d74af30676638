"""The bytes that each op of a placed step touches."""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto.blocks import BlockAnalysis
from runtime.step import Places, Touched, effects_of


def touched_bytes(block: BlockAnalysis, places: Places) -> list[Touched]:
    """Return the bytes that each op reads and writes, in `places.order`.

    The addresses are those of the arena, then of the file, then of states. Views and constants touch none, because they
    compute nothing.
    """
    root_of, views = places.aliases.root, places.aliases.views
    sizes = {name: type.nbytes for name, type in block.types.items()}
    sizes |= {name: type.nbytes for row in places.scratch for name, type in row}
    address = {buffer.name: offset for buffer, offset in places.in_arena}
    address |= {buffer.name: places.arena_bytes + offset for buffer, offset in places.in_file}
    end = places.arena_bytes + places.file_bytes
    for name, root in root_of.items():
        if root not in address:
            address[root], end = end, end + sizes[root]
        address[name] = address[root]

    def ranges(names: Sequence[str]) -> list[tuple[int, int]]:
        return [(address[name], address[name] + sizes[name]) for name in names if name and sizes[name]]

    return [
        Touched([], [])
        if i in views or block.op_types[i] == "constant"
        else Touched(
            ranges(block.inputs[i]),
            ranges([*block.outputs[i], *(name for name, _ in places.scratch[i])]),
            effects_of(block.op_types[i]),
        )
        for i in places.order
    ]
