"""Windows of images as rows, and their sum back into images: box by box, one for each tap of the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from prograd_proto import TensorType
from runtime.codegen.costs import SPREAD_ELEMENT_CYCLES
from runtime.codegen.ir import DTYPES, Function, Index, Value
from runtime.codegen.kernels.moves import Layout, Move, Strided, line, row_major
from runtime.codegen.kernels.nest import offset_of, over
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import NUMERIC_DTYPES, RULES, CustomKernel
from runtime.codegen.rules.shape import moving

Ints = tuple[int, ...]


class Tap(NamedTuple):
    """One tap of the window, and the windows for which it lies within an image.

    Attributes:
        extents: images, rows and columns of windows, channels.
        image: offset of the first element in the images that the tap sees, and the strides along `extents`.
        windows: offset of the first element in the rows of windows, and the strides along `extents`.
    """

    extents: Ints
    image: tuple[int, Ints]
    windows: tuple[int, Ints]


def taps(
    images: Layout, windows: Layout, *, window: Ints, stride: Ints, padding: Ints, dilation: Ints, **_: object
) -> Iterator[Tap]:
    """Yield the taps in row-major order, without those that lie outside of the image for all windows."""
    n, *sizes, c = images.shape
    (n_step, *steps, c_step), (to_n, *to, to_c) = images.strides, windows.strides
    for at in product(*map(range, window)):
        spans = [_inside(sizes[k], windows.shape[1 + k], at[k] * dilation[k] - padding[k], stride[k]) for k in range(2)]
        if not all(count for _, _, count in spans):
            continue
        extents = (n, *(count for _, _, count in spans), c)
        image = sum(start * step for (_, start, _), step in zip(spans, steps, strict=True))
        index = sum(first * step for (first, _, _), step in zip(spans, to, strict=True))
        number = (at[0] * window[1] + at[1]) * c * to_c
        strides = (n_step, *(s * step for s, step in zip(stride, steps, strict=True)), c_step)
        yield Tap(extents, (image, strides), (index + number, (to_n, *to, to_c)))


def _inside(size: int, indices: int, offset: int, stride: int) -> tuple[int, int, int]:
    """Return the first position whose tap is in the image, the index of that tap, and the number of positions.

    The tap of position i has the index offset + stride * i.
    """
    first = max(0, -(offset // stride))
    count = max(min(indices, (size - 1 - offset) // stride + 1) - first, 0)
    return first, offset + stride * first, count


def unfold(xs: Sequence[Layout], outputs: Sequence[TensorType], **attributes: Any) -> list[list[Move]]:
    y = outputs[0].static_shape
    found = taps(xs[0], Layout(y, row_major(y)), **attributes)
    copies = [Move(tap.extents, Strided(0, *tap.windows), Strided(0, *tap.image)) for tap in found]
    if not any(attributes["padding"]):
        return [copies]
    return [[Move(y, Strided(0, 0, row_major(y)), 0)], copies]


def fold(target: Target, op: OpTypes) -> KernelSteps:
    """Return the steps of `fold`; a work item is an image, whose elements are summed in the order of the taps."""
    [x], [y] = op.present, op.outputs
    element = DTYPES[y.dtype]
    images, windows = (Layout(shape, row_major(shape)) for shape in (y.static_shape, x.static_shape))
    lanes, size = target.lanes(element.bits), images.strides[0]

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, source, to = context.f, context.operand(0), context.outputs[0]
        for image in f.range(start, stop):
            for i, many in line(f, size, lanes):
                f.store(f.constant(element.of(many), 0), to + f.index(image) * size, i)
            for tap in taps(images, windows, **op.attributes):
                _add(f, tap, lanes, source + tap.windows[0], to + tap.image[0], f.index(image))

    cost = x.static_shape[0] * windows.strides[0] * SPREAD_ELEMENT_CYCLES
    return KernelSteps((KernelStep(write, x.static_shape[0], cost),))


def _add(f: Function, tap: Tap, lanes: int, source: Value, to: Value, image: Value) -> None:
    """Add the elements below a tap to an image."""

    def index(at: list[Index]) -> None:
        read = source + offset_of([image, *at], tap.windows[1])
        written = to + offset_of([image, *at], tap.image[1])
        for i, many in line(f, tap.extents[3], lanes):
            f.store(f.load(written, i, many) + f.load(read, i, many), written, i)

    over(f, tap.extents[1:3], index)


moving("unfold", unfold)
RULES["fold"] = CustomKernel(fold, NUMERIC_DTYPES)
