"""Ops alone, made unit by unit, the last one first, between forbidden pages."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from native.guarded import guarded

import runtime.engines.reference.kernels  # noqa: F401 -- fills KERNELS
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from registry import OPS, Block
from runtime.codegen.emit.code import emit
from runtime.codegen.emit.group_steps import steps_of
from runtime.codegen.groups.group_kernel import kernel_of
from runtime.codegen.lowering.passes.fuse import fused_groups
from runtime.codegen.lowering.passes.order_additions import with_additions
from runtime.codegen.lowering.passes.read import read_nodes
from runtime.codegen.machine import Target
from runtime.dtypes import array_type, numpy_dtype
from runtime.engines.native import jit
from runtime.engines.native.cpu import this_machine
from runtime.kernel import KERNELS

GARBAGE = 0xAA


def op_of(name: str, inputs: Sequence[np.ndarray], attributes: dict[str, Any]) -> pb.BlockDesc:
    """A block of one op and what it is fed."""
    block = Block()
    operands = [block.define(f"x{i}", array_type(x)) for i, x in enumerate(inputs)]
    spelled = OPS[name].signature.spelled(attributes)
    OPS[name](*operands, **spelled) if operands else OPS[name].on(block)(**spelled)
    for operand in operands:
        block.desc.parameters.add(tensor=operand.name, feed=operand.name)
    return block.desc


def expected(op: pb.OpDesc, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """Return the results of the reference kernel; absent operands are None."""
    kernel, attributes = KERNELS[op.type], attributes_of(op)
    types = [None if x is None else array_type(x) for x in inputs]
    outputs = list(map(garbage, kernel.contract.rule.results(*types, **attributes)))
    scratch = list(map(garbage, kernel.scratch(types, attributes)))
    with np.errstate(all="ignore"):
        kernel.bind(inputs, outputs, scratch, attributes, op.random_stream)()
    return outputs


def garbage(type: TensorType) -> np.ndarray:
    array = np.empty(type.static_shape, numpy_dtype(type.dtype))
    array.reshape(-1).view(np.uint8).fill(GARBAGE)
    return array


def staged(
    target: Target, block: pb.BlockDesc, inputs: Sequence[np.ndarray], end: bool = True, threads: int = 2
) -> list[np.ndarray]:
    """Return the results of the op's kernel steps."""
    [op] = block.ops
    nodes = with_additions(read_nodes(block))
    [group] = fused_groups(nodes)
    assert group.nodes[0].rule is not None, f"{op.type} has no form for this"
    task = kernel_of(nodes, group, group.outputs)
    stages = steps_of(target, task)
    source = emit(target, [task], [stages])
    [module] = source.modules
    code = jit.load(jit.compiled(module), target)
    given = [name for name in op.inputs if name]
    arrays = dict(zip(given, (guarded(x, end) for x in inputs), strict=True))
    arrays |= {name: guarded(garbage(nodes.types[name]), end) for name in op.outputs}
    scratch = [guarded(np.full(size, GARBAGE, np.uint8)) for size in stages.shared_scratch]
    scratch += [guarded(np.full(-(-size // 64) * 64 * threads, GARBAGE, np.uint8)) for size in stages.thread_scratch]
    words = np.zeros(2, np.int64)
    operands = [arrays[name] for name in task.table]
    table = np.array([a.ctypes.data for a in [*operands, *scratch, words, words[1:]]], np.int64)
    for stage, name in zip(stages.steps, source.functions[0], strict=True):
        function = code.function(name, 4)
        for run in reversed(range(0, stage.work_items, stage.in_order)):
            for unit in range(stage.first + run, stage.first + run + stage.in_order):
                function(table.ctypes.data, unit, unit + 1, run % threads)
    assert not words.any(), "nothing is to be refused"
    return [arrays[name] for name in op.outputs]


def check(name: str, *inputs: np.ndarray, target: Any = None, end: bool = True, **attributes: Any) -> None:
    """Assert that an op made unit by unit has the bits of its kernel."""
    block = op_of(name, inputs, attributes)
    made = staged(target or this_machine(), block, inputs, end)
    for got, wanted in zip(made, expected(block.ops[0], inputs), strict=True):
        assert got.tobytes() == wanted.tobytes(), (name, attributes, [x.shape for x in inputs])
