"""Compile bombs: small files whose code, memory or time is large.

products     products of distinct shapes, each with a kernel of its own
chains       one long chain of elementwise functions, which fusion has to cut
convolutions convolutions with many channels and distinct kernels
scans        recurrent layers of distinct sizes, one after the other
groups       thousands of small groups that cannot be fused with each other
reductions   reductions of tensors that are built from one number and are larger than any cache

`python -m hostile.bombs` runs each of them under limits, see `hostile.defused`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from compiler import Program, ops, zeros
from prograd import layers

Bomb = Callable[[int], Program]


def products(count: int) -> Program:
    """Return `count` products [8, k] x [k, n], no two of the same shape."""
    program = Program("products", seed=1)
    x = program.parameter("x", (8, 96), zeros())
    total = x[0, 0]
    for i in range(count):
        k, n = 17 + i % 64, 9 + i // 64
        w = program.parameter(f"w{i}", (k, n), zeros())
        total = total + ops.sum(ops.matmul(x[:, :k], w))
    program.outputs(total=total)
    return program


def chains(count: int) -> Program:
    """Return a chain of `count` elementwise functions of a tensor of [64, 256]."""
    program = Program("chains", seed=1)
    x = program.parameter("x", (64, 256), zeros())
    functions = (ops.tanh, ops.exp, ops.sigmoid, ops.sin, ops.erf)
    for i in range(count):
        x = functions[i % len(functions)](x) + float(i)
    program.outputs(total=ops.sum(x))
    return program


def convolutions(count: int) -> Program:
    """Return `count` convolutions of images of 16 x 16 with distinct kernels and numbers of channels."""
    program = Program("convolutions", seed=1)
    total = program.parameter("t", (), zeros())
    for i in range(count):
        kernel, channels = 1 + i % 5, 64 + 8 * (i // 5)
        x = program.parameter(f"x{i}", (1, 16, 16, channels), zeros())
        w = program.parameter(f"w{i}", (kernel, kernel, channels, 32 + i), zeros())
        total = total + ops.sum(ops.conv2d(x, w, stride=(1, 1), padding=(0, 0)))
    program.outputs(total=total)
    return program


def scans(count: int) -> Program:
    """Return `count` recurrent layers of distinct sizes over 32 steps, each of which reads the one before."""
    program = Program("scans", seed=1)
    x = program.parameter("x", (4, 32, 16), zeros())
    for i in range(count):
        x, *_ = layers.lstm(x, f"layer{i}", 16 + i)
    program.outputs(total=ops.sum(x))
    return program


def groups(count: int) -> Program:
    """Return `count` cumulative sums of distinct lengths, each in a group of its own."""
    program = Program("groups", seed=1)
    x = program.parameter("x", (4, count + 8), zeros())
    total = program.parameter("t", (), zeros())
    for i in range(count):
        total = total + ops.max(ops.cumsum(x[:, : 8 + i], axis=1))
    program.outputs(total=total)
    return program


def reductions(count: int) -> Program:
    """Return `count` sums over 2^36 elements, which follow from one number by broadcasting."""
    program = Program("reductions", seed=1)
    x = program.parameter("x", (1, 1), zeros())
    total = program.parameter("t", (), zeros())
    for i in range(count):
        total = total + ops.sum(ops.exp(ops.broadcast_to(x, shape=(1 << 18, (1 << 18) + i))))
    program.outputs(total=total)
    return program


BOMBS: Final[dict[str, Bomb]] = {
    "products": products,
    "chains": chains,
    "convolutions": convolutions,
    "scans": scans,
    "groups": groups,
    "reductions": reductions,
}
"""The bombs by their names."""
