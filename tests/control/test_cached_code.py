"""Compiled loops as values: all that is cached of them is accepted when it is read again."""

from __future__ import annotations

import pytest
from control import test_fallback, test_shared_iterations
from native.bound import lowered

from compiler import Program, ops, sgd
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from registry import Value
from runtime.codegen.assemble import Assembly
from runtime.codegen.code_bounds import fits
from runtime.codegen.code_bytes import from_bytes, to_bytes
from runtime.engines.native.cpu import this_machine
from runtime.entries import bound_entries


def carries(x: Value) -> Value:
    """Carries and rows in both directions, a counted loop and a condition."""
    last, rows = ops.scan(lambda c, row: (ops.tanh(c + row), c * 2.0), x[0], x, reverse=True)
    last, _ = ops.while_loop(lambda c: ops.sum(c * c) > 1.0, lambda c: c * 0.5 + x[1] * 0.01, last, max_trips=7)
    return ops.cond(ops.sum(last) > 0, lambda: last + rows[0], lambda: ops.cumsum(last, axis=0))


PROGRAMS = {
    "carries": carries,
    **{f"host ops, {name}": case for name, case in test_fallback.CASES.items()},
    **{
        f"shared, {name}": lambda x, case=case: ops.map(lambda row: ops.mean(case(row, x[0]), axis=0), x)
        for name, case in test_shared_iterations.CASES.items()
    },
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_code_of_loops_fits_its_block(name: str, threads: int):
    program = Program(name, seed=3)
    x, w = program.input("x", "float32", (32, 64, 64)), program.parameter("w", (64,))
    program.minimize(ops.mean(ops.square(PROGRAMS[name](x * w))), sgd(0.1))
    desc: pb.ProgramDesc = program.compile().desc
    [bound] = bound_entries(desc, "train")
    block = lowered(bound.block, [], this_machine(), threads, blocks=desc.blocks)
    assembly = Assembly(block)
    named = [[f"f{i}_{j}" for j in range(count)] for i, count in enumerate(assembly.source.counts)]
    code = from_bytes(to_bytes(assembly.code(named)))
    types = {tensor.name: type_of(tensor) for tensor in bound.block.tensors}
    assert code is not None
    assert len(code.actions)
    assert fits(code, bound.block, types, (), this_machine(), threads, desc.blocks)
