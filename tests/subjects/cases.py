"""A sample as a program: its op in a block, gradients of any order appended, and their check by differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from oracles.interpret import interpret
from samples import Sample

import runtime.engines.reference.kernels  # noqa: F401 - fills KERNELS
from compiler.train.backward import gradients
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from registry import OPS, Block, OpError, Value
from registry.gradients import carries_gradient, emits_gradient
from runtime.kernel import KERNELS, Kernel

STEP = 5e-6
"""Step of central differences, whose error is its square, about 3e-11, and a rounding error of 1e-16 / 5e-6."""


@dataclass(frozen=True)
class Case:
    """A block under construction, what to feed it, and the outputs of its last stage."""

    block: Block
    feeds: dict[str, np.ndarray]
    operands: list[Value | None]
    outputs: list[Value]
    differentiable: tuple[list[Value], list[Value]]  # inputs and outputs that gradients flow through
    rng: np.random.Generator

    @property
    def desc(self) -> pb.OpDesc:
        """The op of the sample."""
        return self.block.desc.ops[0]

    @property
    def kernel(self) -> Kernel:
        return KERNELS[self.desc.type]

    @property
    def inputs(self) -> list[np.ndarray | None]:
        return [self.feeds[name] if name else None for name in self.desc.inputs]

    @property
    def made(self) -> tuple[list[TensorType], Sequence[TensorType]]:
        """Return the types of the outputs and of the kernel's scratch."""
        types = [None if value is None else value.type for value in self.operands]
        return [value.type for value in self.outputs], self.kernel.scratch(types, attributes_of(self.desc))

    def call(
        self, inputs: list[np.ndarray | None], outputs: list[np.ndarray], scratch: list[np.ndarray]
    ) -> Callable[[], object]:
        return self.kernel.bind(inputs, outputs, scratch, attributes_of(self.desc), self.desc.random_stream)


@dataclass(frozen=True)
class Differentiated:
    """A case, and for the given seeds the gradients of its outputs with respect to its inputs."""

    case: Case
    seeds: list[Value]
    inputs: list[Value]
    outputs: list[Value]

    def as_case(self) -> Case:
        """The gradients as outputs of their own, which depend on the inputs and the seeds."""
        case = self.case
        inputs = [*case.differentiable[0], *self.seeds]
        return Case(case.block, case.feeds, case.operands, self.outputs, (inputs, self.outputs), case.rng)


def build(sample: Sample, batch: str = "") -> Case:
    """The op of a sample alone in a block; `batch` takes the place of the first extent."""
    block = Block()
    rng = np.random.default_rng(0)
    op = OPS[sample.op]
    feeds: dict[str, np.ndarray] = {}
    operands: list[Value | None] = []
    for i, operand in enumerate(sample.operands):
        name = f"{op.signature.input_name(i)}_{i}"
        operands.append(None)
        if operand is not None:
            operands[-1] = block.define(name, TensorType(operand.dtype, with_symbol(operand.shape, sample, batch)))
            feeds[name] = operand.make(rng)
    attributes = dict(sample.attributes)
    if "shape" in attributes:
        attributes["shape"] = with_symbol(attributes["shape"], sample, batch)
    spelled = op.signature.spelled(attributes)
    made = op(*operands, **spelled) if any(sample.operands) else op.on(block)(**spelled)
    outputs = [made] if isinstance(made, Value) else list(made)
    desc = block.desc.ops[-1]
    ins = [
        value for i, value in enumerate(operands) if value is not None and carries_gradient(op, desc.inputs, i, block)
    ]
    outs = [value for i, value in enumerate(outputs) if emits_gradient(op, desc, i, block)]
    return Case(block, feeds, operands, outputs, (ins, outs), rng)


def differentiated(case: Case) -> Differentiated:
    """Append the gradients for a new seed for each output."""
    inputs, outputs = case.differentiable
    seeds: list[Value] = []
    for output in outputs:
        seeds.append(case.block.define(f"seed_{len(case.block.desc.tensors)}", output.type))
        if not any(isinstance(extent, str) for extent in output.shape):
            case.feeds[seeds[-1].name] = np.asarray(case.rng.normal(size=output.shape)).astype(output.dtype)
    grads = gradients(outputs, inputs, seeds) if outputs else [None] * len(inputs)
    reached = [(value, grad) for value, grad in zip(inputs, grads, strict=True) if grad is not None]
    return Differentiated(case, seeds, [value for value, _ in reached], [grad for _, grad in reached])


def check_derivative(done: Differentiated):
    """Along a random direction, seeds times the change of the outputs is gradients times the change of the inputs.

    The direction includes inputs that no gradient reaches: the outputs must not change with them. Only
    stop_gradient says otherwise on purpose.
    """
    case = done.case
    inputs, outputs = case.differentiable
    if any(desc.type == "stop_gradient" for desc in case.block.desc.ops):
        inputs = done.inputs
    change = {value.name: case.rng.normal(size=value.shape) for value in inputs}
    arrays = interpret(case.block.desc, case.feeds)
    plus, minus = (
        interpret(
            case.block.desc, {name: x + step * change[name] if name in change else x for name, x in case.feeds.items()}
        )
        for step in (STEP, -STEP)
    )
    numeric = sum(
        np.vdot(arrays[seed.name], plus[output.name] - minus[output.name]) / (2 * STEP)
        for seed, output in zip(done.seeds, outputs, strict=True)
    )
    analytic = sum(
        np.vdot(arrays[grad.name], change[value.name]) for value, grad in zip(done.inputs, done.outputs, strict=True)
    )
    assert analytic == pytest.approx(numeric, rel=1e-6, abs=1e-7)


def takes_symbol(sample: Sample) -> bool:
    """Return True if the operator accepts a symbol as the first extent of the sample's first operand."""
    try:
        return bool(batch_of(sample)) and bool(build(sample, batch="n"))
    except OpError:
        return False


def batch_of(sample: Sample) -> int:
    """The extent that the symbol stands for: the first of the first operand or else of the attribute `shape`, or 0."""
    shape = (sample.operands and sample.operands[0].shape) or sample.attributes.get("shape", ())
    return shape[0] if shape else 0


def with_symbol(shape: tuple[int, ...], sample: Sample, symbol: str) -> tuple[int | str, ...]:
    """The shape with the symbol for its first extent, if that is the batch."""
    return (symbol, *shape[1:]) if symbol and shape and shape[0] == batch_of(sample) else shape


def with_size(type: TensorType, sample: Sample) -> TensorType:
    return type._replace(shape=tuple(batch_of(sample) if extent == "n" else extent for extent in type.shape))
