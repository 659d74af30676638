"""Choices from the random bits of a stream: a work item is a row of logits, whose class one uniform number chooses.

The probabilities of a row are added one by one, as in the reference kernel, and the sums are kept in scratch of the
thread. The class is the number of sums that are at most the uniform share of the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from runtime.codegen import math
from runtime.codegen.costs import ROW_ELEMENT_CYCLES, SCANNED_ELEMENT_CYCLES
from runtime.codegen.ir import DTYPES, FLOAT64, INT64, Function, Index, Value
from runtime.codegen.ir.words import convert, lane, minimum, where
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.reduction import LARGEST, SUM, along_row
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.random import RandomSource, of_53_bits
from runtime.codegen.rules.rule import FLOAT_DTYPES, RULES, CustomKernel


def categorical(target: Target, op: OpTypes) -> KernelSteps:
    """Return the kernel step that draws a class for each row."""
    logits = op.operand(0)
    rows, classes = prod(logits.static_shape[:-1]), logits.static_shape[-1]
    element, lanes = DTYPES[logits.dtype], target.lanes(64)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f = context.f
        x, seed, step = map(context.operand, range(3))
        assert context.stream is not None, "the rule is random"
        source = RandomSource(f.load(seed), f.load(step), context.stream)
        sums = context.thread_scratch(0, FLOAT64)
        for row in f.range(start, stop):
            at = x + f.index(row) * classes

            def read(i: Index, tail: int | None, at: Value = at) -> Sequence[Value]:
                return [f.load(at, i, lanes, tail)]

            [largest] = along_row(f, classes, read, [LARGEST], [element.of(lanes)])
            for i in f.range(0, -(-classes // lanes) * lanes, lanes):
                tail = minimum(classes - f.index(i), lanes)
                distance = f.load(at, i, lanes, tail) - largest
                f.store(math.exp(convert(distance, FLOAT64)), sums, i)
            total = _added_up(f, sums, classes)
            share = _uniform(source, f.index(row)) * total
            chosen = _count_at_most(f, sums, classes, lanes, share)
            f.store(minimum(chosen, classes - 1), context.outputs[0], row)

    cost = rows * classes * (SCANNED_ELEMENT_CYCLES + ROW_ELEMENT_CYCLES)
    return KernelSteps((KernelStep(write, rows, cost),), thread_scratch=(-(-classes // lanes) * lanes * 8,))


def _added_up(f: Function, sums: Value, count: int) -> Value:
    """Replace each number by the sum of all numbers up to it; return the sum of all."""
    loop = f.loop(0, count, 1, [f.constant(FLOAT64, 0)])
    for i, [before] in loop:
        after = before + f.load(sums, i)
        f.store(after, sums, i)
        loop.carry([after])
    return loop.results[0]


def _uniform(source: RandomSource, row: Value) -> Value:
    """Return the float64 number of a row: two rows share a block of random words."""
    numbers = of_53_bits(source.words(row >> 1, 4)) * 2.0**-53
    return where((row & 1).equal(0), lane(numbers, 0), lane(numbers, 1))


def _count_at_most(f: Function, sums: Value, count: int, lanes: int, bound: Value) -> Value:
    """Return how many of the numbers are at most a bound; none if the bound is NaN."""

    def read(i: Index, tail: int | None) -> Sequence[Value]:
        below = f.load(sums, i, lanes, tail) <= bound
        return [where(below, f.constant(INT64.of(lanes), 1), 0)]

    return along_row(f, count, read, [SUM], [INT64.of(lanes)])[0]


RULES["categorical"] = CustomKernel(categorical, FLOAT_DTYPES | {"int64"}, is_random=True)
