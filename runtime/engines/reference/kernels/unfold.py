"""Windows of images side by side, and their sum back into images: one pass over the output positions for each tap."""

from __future__ import annotations

import numpy as np

from runtime.engines.reference.kernels.windows import Numbers, small_buffers, taps
from runtime.kernel import Array, kernel


@kernel()
def unfold(x: Array, *, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, out: Array) -> None:
    out.fill(0)
    tap = out.reshape(*out.shape[:3], *window, x.shape[3])
    where = dict(window=window, stride=stride, padding=padding, dilation=dilation)
    for i, j, inside, places in taps(x, out, **where):
        np.copyto(tap[..., i, j, :][places], x[inside])


@kernel()
def fold(
    x: Array,
    *,
    shape: tuple[int, ...],
    window: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    out: Array,
) -> None:
    out.fill(0)
    tap = x.reshape(*x.shape[:3], *window, out.shape[3])
    where = dict(window=window, stride=stride, padding=padding, dilation=dilation)
    with small_buffers():
        for i, j, inside, places in taps(out, x, **where):
            np.add(out[inside], tap[..., i, j, :][places], out[inside])
