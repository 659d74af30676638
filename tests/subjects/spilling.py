"""Programs whose bound blocks move tensors to the file beside the arena and back, by ops put there by hand."""

from __future__ import annotations

from collections.abc import Callable

from compiler.passes.pass_table import Pass
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from subjects.steps import bound_blocks

Choice = Callable[[int], int]
"""A number below the one given."""


def spilled(compiled: pb.ProgramDesc, choose: Choice, pairs: int = 1) -> pb.ProgramDesc:
    """Compile a compiled program again with `pairs` pairs of spill and reload in each block that runs."""

    def insert(program: BlockAnalyses) -> None:
        for block in bound_blocks(program.desc):
            for _ in range(pairs):
                insert_pair(block, choose)
        program.forget()

    desc = pb.ProgramDesc()
    desc.CopyFrom(compiled)
    run_passes(desc, PASSES.with_pass(Pass(insert), before="list_operators").since("bind_dimensions"))
    return desc


def insert_pair(block: pb.BlockDesc, choose: Choice) -> None:
    """Spill what some op makes, somewhere after it, and let some of its readers read it reloaded."""
    made = {name: i for i, op in enumerate(block.ops) if op.type not in ("constant", "spill") for name in op.outputs}
    readers = {name: [k for k, op in enumerate(block.ops) if name in op.inputs] for name in made}
    candidates = [name for name in made if readers[name]]
    if not candidates:
        return
    name = candidates[choose(len(candidates))]
    first = readers[name][choose(len(readers[name]))]
    back = made[name] + 1 + choose(first - made[name])
    away = made[name] + 1 + choose(back - made[name])
    insert_reload(block, name, away, back, first)


def insert_reload(block: pb.BlockDesc, name: str, away: int, back: int, first: int) -> None:
    """Spill a tensor before the op at `away` and reload it before that at `back` for all readers from `first` on."""
    free = max(op.id for op in block.ops) + 1
    gone, again = f"{name}_spilled_{free}", f"{name}_reloaded_{free}"
    type = next(tensor for tensor in block.tensors if tensor.name == name)
    for new in (gone, again):
        block.tensors.add().CopyFrom(type)
        block.tensors[-1].name = new
        block.tensors[-1].ClearField("lifespan")
    for op in block.ops[first:]:
        op.inputs[:] = [again if read == name else read for read in op.inputs]
    stage = block.ops[first].stage
    block.ops.insert(back, pb.OpDesc(id=free, type="reload", inputs=[gone], outputs=[again], stage=stage))
    block.ops.insert(away, pb.OpDesc(id=free + 1, type="spill", inputs=[name], outputs=[gone], stage=stage))
