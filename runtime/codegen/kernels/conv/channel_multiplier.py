"""Depthwise convolutions with several output channels for each input channel: the input is repeated channel by channel.

The results of an input channel are contiguous. Therefore a contiguous input is repeated element by element, and the
gradient of an input is summed likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from runtime.codegen.costs import PARTIAL_SUM_CYCLES
from runtime.codegen.ir import Function, Type, Value
from runtime.codegen.ir.words import minimum, shuffle
from runtime.codegen.kernels.matmul.packing import pieces
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps

ELEMENTS_PER_ITEM: Final = 4096
"""Elements of a work item; whole vectors."""


Operand = tuple[int, int]
"""The number of an operand, and its number of elements."""


def with_repeated_channels(steps: KernelSteps, element: Type, lanes: int, source: Operand, times: int) -> KernelSteps:
    """Return kernel steps that read an operand with every element repeated `times` times."""
    number, scratch = source[0], len(steps.shared_scratch)

    def repeat(context: KernelContext, start: Value, stop: Value) -> None:
        f, operand, to = context.f, context.operand(number), context.shared_scratch(scratch, element)
        for i, many in _elements(f, start, stop, source[1], lanes):
            x = f.load(operand, i, many)
            for k in range(times):
                lane = [(k * many + j) // times for j in range(many)]
                f.store(shuffle(x, x, lane) if many else x, to, i * times + k * max(many, 1))

    def seen(context: KernelContext) -> KernelContext:
        inputs = [context.shared_scratch(scratch, element) if i == number else x for i, x in enumerate(context.inputs)]
        return context._replace(inputs=inputs)

    first = KernelStep(repeat, -(-source[1] // ELEMENTS_PER_ITEM), source[1] * times * PARTIAL_SUM_CYCLES)
    after = [_with(kernel_step, seen) for kernel_step in steps.steps]
    size = source[1] * times * element.bits // 8
    return steps._replace(steps=(first, *after), shared_scratch=(*steps.shared_scratch, size))


def with_summed_channels(
    steps: KernelSteps, element: Type, lanes: int, pixels: int, channels: int, times: int
) -> KernelSteps:
    """Return kernel steps whose result has pixels of channels, each the sum of `times` neighbours, in order."""
    scratch, size = len(steps.shared_scratch), pixels * channels
    items = -(-size // ELEMENTS_PER_ITEM)

    def add(context: KernelContext, start: Value, stop: Value) -> None:
        f, parts, finish = context.f, context.shared_scratch(scratch, element), context.finish
        if finish is None:
            for i, many in _elements(f, start, stop, size, lanes):
                f.store(_summed(parts, i, many, times), context.outputs[0], i)
            return
        for item in f.range(start, stop):
            for pixel in f.range(f.index(item) * pixels // items, (f.index(item) + 1) * pixels // items):
                for channel, many in pieces(f, channels, lanes):
                    total = _summed(parts, f.index(pixel) * channels + channel, many, times)
                    finish(total, pixel, channel, max(many, 1))

    def seen(context: KernelContext) -> KernelContext:
        return context._replace(outputs=[context.shared_scratch(scratch, element)], finish=None)

    last = KernelStep(add, items, size * times * PARTIAL_SUM_CYCLES)
    before = [_with(kernel_step, seen) for kernel_step in steps.steps]
    return steps._replace(
        steps=(*before, last), shared_scratch=(*steps.shared_scratch, size * times * element.bits // 8)
    )


def _elements(f: Function, start: Value, stop: Value, size: int, lanes: int) -> Iterator[tuple[Value, int]]:
    """Give the elements of work items: whole vectors, and single elements, which have no lanes."""
    for item in f.range(start, stop):
        first = f.index(item) * ELEMENTS_PER_ITEM
        for i, many in pieces(f, minimum(size - first, ELEMENTS_PER_ITEM), lanes):
            yield first + i, many


def _summed(parts: Value, i: Value, many: int, times: int) -> Value:
    """Return sums of `times` neighbours: a vector of `many` sums from number `i` on, or one sum without lanes."""
    xs = [parts.function.load(parts, i * times + k * max(many, 1), many) for k in range(times)]
    total = _every(xs, 0)
    for first in range(1, times):
        total = total + _every(xs, first)
    return total


def _every(xs: Sequence[Value], first: int) -> Value:
    """Return every len(xs)-th lane of contiguous vectors, from one lane of the first on."""
    lanes, times = xs[0].type.lanes, len(xs)
    if not lanes:
        return xs[first]
    pixels = [divmod(first + j * times, lanes) for j in range(lanes)]
    found = shuffle(xs[0], xs[0], [lane if number == 0 else 0 for number, lane in pixels])
    for k in range(1, times):
        lane = [lanes + lane if number == k else j for j, (number, lane) in enumerate(pixels)]
        found = shuffle(found, xs[k], lane)
    return found


def _with(kernel_step: KernelStep, seen: Callable[[KernelContext], KernelContext]) -> KernelStep:
    def write(context: KernelContext, start: Value, stop: Value) -> None:
        kernel_step.write(seen(context), start, stop)

    return kernel_step._replace(write=write)
