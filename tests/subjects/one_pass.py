"""A small program before and after one pass, in the form that the pass sees: bound, with nothing dead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from oracles.interpret import interpret

from compiler import Program, Value
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NAMES
from subjects.odd_networks import DTYPES, odd_array
from subjects.steps import bound_block, same_bits

Build = Callable[..., Value | list[Value]]


def block_after(name: str, build: Build, *inputs: tuple[str, tuple[int, ...]]) -> pb.BlockDesc:
    """The block that gives what `build` makes of inputs of these types; its outputs have the bits that they had."""
    program = Program()
    given = [program.input(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(inputs)]
    made = build(*given)
    program.outputs(**{f"y{i}": y for i, y in enumerate(made if isinstance(made, list) else [made])})
    desc = program._assembled()
    desc.entries[0].bindings.add()
    run_passes(desc, PASSES.only("use_inference_forms", "eliminate_dead_ops", "bind_dimensions"))
    before = pb.ProgramDesc.FromString(desc.SerializeToString())
    run_passes(desc, PASSES.only(name))
    for seed in range(3):
        same_bits(computed(desc, seed), computed(before, seed))
    return bound_block(desc, "predict")


def computed(program: pb.ProgramDesc, seed: int) -> dict[str, np.ndarray]:
    """Return the program's results for odd elements."""
    block = bound_block(program, "predict")
    types = {t.name: (NAMES[t.dtype], tuple(dim.size for dim in t.shape.dims)) for t in block.tensors}
    fed: dict[str, np.ndarray] = {}
    for p in block.parameters:
        dtype, shape = types[p.tensor]
        assert dtype in DTYPES
        fed[p.tensor] = odd_array(np.random.default_rng((seed, int(p.feed[1:]))), dtype, shape)
    arrays = interpret(block, fed)
    return {fetch.name: arrays[fetch.tensor] for fetch in block.fetches}


def types(block: pb.BlockDesc) -> list[str]:
    """The op types of a block but for constants."""
    return [op.type for op in block.ops if op.type != "constant"]
