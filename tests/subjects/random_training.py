"""Hypothesis strategies for training programs: ops in any pattern of sharing, views, several losses and optimizers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from compiler import Program, Value, adam, constant, global_norm, momentum, ops, sgd
from compiler.train.optimizers import Optimizer

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: sgd(0.1),
    "momentum": lambda: momentum(0.05, clip=global_norm(0.5)),
    "adam": lambda: adam(0.05),
}


@st.composite
def training_programs(draw: st.DrawFn) -> Program:
    """A program on x [rows, 4] with up to three parameters, bounded so that no step overflows; bind rows."""
    program = Program("random", seed=draw(st.integers(0, 9)))
    x = program.input("x", "float64", ("rows", 4))
    weights = [program.parameter(f"w{i}", (4,), constant(0.5 + 0.2 * i), dtype="float64") for i in range(3)]
    made = [x * weights[0], ops.tanh(x + weights[1]), x * weights[2]]
    for _ in range(draw(st.integers(1, 12))):
        made.append(draw(st.sampled_from(STEPS))(draw(st.sampled_from(made)), draw(st.sampled_from(made))))
    if draw(st.booleans()):
        total = program.buffer("total", (4,), dtype="float64")
        program.update(total, total + ops.sum(made[-1], axis=(0,)))
    if draw(st.booleans()):
        program.fetch("middle", draw(st.sampled_from(made)))
    if draw(st.booleans()):
        program.fetch("state", weights[0])
    remember(draw, program, [ops.mean(made[-1], axis=(0,)), weights[1]])
    loss = ops.mean(ops.square(made[0] + made[1] + made[2] + made[-1]))
    program.minimize(loss, optimizer(draw), accumulate=draw(st.sampled_from([1, 1, 2])))
    if draw(st.booleans()):
        program.minimize(ops.mean(ops.abs(made[-1] + made[0])), optimizer(draw), [weights[0]])
    program.outputs(y=made[-1])
    return program


def remember(draw: st.DrawFn, program: Program, others: list[Value]) -> None:
    """Append states of one type that become what ops in any pattern make of each other's old values."""
    buffers = [
        program.buffer(f"b{i}", (4,), constant(0.3 * i), dtype="float64") for i in range(draw(st.integers(0, 3)))
    ]
    made = buffers + others
    for _ in range(draw(st.integers(1, 8)) if buffers else 0):
        made.append(draw(st.sampled_from(MIXTURES))(draw(st.sampled_from(made)), draw(st.sampled_from(made))))
    for buffer in buffers:
        if draw(st.booleans()):
            program.update(buffer, draw(st.sampled_from(made)))
    if draw(st.booleans()):
        program.fetch("mixture", draw(st.sampled_from(made)))


def optimizer(draw: st.DrawFn) -> Optimizer:
    return OPTIMIZERS[draw(st.sampled_from(sorted(OPTIMIZERS)))]()


STEPS = [
    lambda a, b: ops.tanh(a * b),
    lambda a, b: ops.sin(a) + b,
    lambda a, b: ops.relu(a - b),
    lambda a, b: ops.reshape(ops.exp(-ops.square(ops.reshape(a, shape=("rows", 2, 2)))), shape=a.shape),
    lambda a, b: ops.softmax(a) * b,
    lambda a, b: ops.dropout(a, ratio=0.25),
    lambda a, b: ops.where(a > b, a, b),
    lambda a, b: ops.tanh(a @ ops.transpose(b, axis=(1, 0)) @ b),
    lambda a, b: ops.identity(a),
    lambda a, b: ops.stop_gradient(a) * b,
    lambda a, b: a - ops.mean(b, axis=(0,), keepdims=True),
]

MIXTURES = [
    lambda a, b: ops.tanh(a - b),
    lambda a, b: a * 0.5 + b * 0.5,
    lambda a, b: ops.sin(b),
    lambda a, b: ops.where(a > b, a, b),
    lambda a, b: ops.reshape(ops.cos(ops.reshape(a, shape=(2, 2))), shape=(4,)),
    lambda a, b: ops.identity(b),
    lambda a, b: ops.tanh(ops.cumsum(a) + b),
]
