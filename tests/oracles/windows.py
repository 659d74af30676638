"""Convolution and pooling by loops over places and taps: the oracle of windows on images that are hardly there.

Images are [n, ..., c]; a place is a tuple of numbers, one for each axis between batch and channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

Numbers = tuple[int, ...]


def places(size: Numbers, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers) -> Numbers:
    """Return the number of positions of a window along each axis where it fits."""
    return tuple(
        (n + 2 * p - d * (w - 1) - 1) // s + 1
        for n, w, s, p, d in zip(size, window, stride, padding, dilation, strict=True)
    )


def places_with_ceil(size: Numbers, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers) -> Numbers:
    """Return the number of positions, one more than fit if it begins before the last padding."""
    found: list[int] = []
    for n, w, s, p, d in zip(size, window, stride, padding, dilation, strict=True):
        count = places((n,), (w,), (s,), (p,), (d,))[0]
        ends = -p + (count - 1) * s + d * (w - 1) == n + p - 1
        found.append(count + (not ends and -p + count * s < n))
    return tuple(found)


def seen(
    size: Numbers, counts: Numbers, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Place, tap and element for every tap at every place that does not lie in the padding."""
    for place in product(*map(range, counts)):
        for tap in product(*map(range, window)):
            element = tuple(
                i * s + j * d - p for i, j, s, d, p in zip(place, tap, stride, dilation, padding, strict=True)
            )
            if all(0 <= e < n for e, n in zip(element, size, strict=True)):
                yield place, tap, element


def conv(x: np.ndarray, w: np.ndarray, attributes: Sequence[Numbers], groups: int) -> np.ndarray:
    """The convolution of x by w [..., c / groups, m]; attributes are stride, padding and dilation."""
    size, window = x.shape[1:-1], w.shape[:-2]
    counts = places(size, window, *attributes)
    y = np.zeros((len(x), *counts, w.shape[-1]))
    for place, tap, element in seen(size, counts, window, *attributes):
        y[:, *place] += by_group(x[:, *element], w[tap], groups)
    return y


def conv_gradients(
    x: np.ndarray, w: np.ndarray, dy: np.ndarray, attributes: Sequence[Numbers], groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of `conv` for x and w."""
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    depth, made = w.shape[-2], w.shape[-1] // groups
    for place, tap, element in seen(x.shape[1:-1], dy.shape[1:-1], w.shape[:-2], *attributes):
        for g in range(groups):
            ins, outs = slice(g * depth, (g + 1) * depth), slice(g * made, (g + 1) * made)
            dx[:, *element, ins] += dy[:, *place, outs] @ w[tap][:, outs].T
            dw[tap][:, outs] += x[:, *element, ins].T @ dy[:, *place, outs]
    return dx, dw


def by_group(x: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    """The product of rows x [n, c] and w [c / groups, m], each group of columns by itself."""
    depth, made = w.shape[0], w.shape[1] // groups
    parts = [x[:, g * depth : (g + 1) * depth] @ w[:, g * made : (g + 1) * made] for g in range(groups)]
    return np.concatenate(parts, axis=1)


def pool(
    x: np.ndarray, window: Numbers, attributes: Sequence[Numbers], of: Callable[[np.ndarray], float], *, ceil: bool
) -> np.ndarray:
    """Return the result of `of` for the elements under the window at every position, without the padding."""
    size = x.shape[1:-1]
    counts = (places_with_ceil if ceil else places)(size, window, *attributes)
    under: dict[Numbers, list[Numbers]] = {place: [] for place in product(*map(range, counts))}
    for place, _, element in seen(size, counts, window, *attributes):
        under[place].append(element)
    y = np.zeros((len(x), *counts, x.shape[-1]))
    for place, elements in under.items():
        for i, c in product(range(len(x)), range(x.shape[-1])):
            y[i, *place, c] = of(np.array([x[i, *element, c] for element in elements]))
    return y
