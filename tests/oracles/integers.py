"""Quantised numbers and products of integers, written out with NumPy's integers."""

import numpy as np


def codes(x: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """float32 numbers, rounded and clipped."""
    whole = np.nan_to_num(np.rint(x.astype("f8")), nan=-1e9, posinf=1e9, neginf=-1e9) + zero
    return np.clip(whole, 0, 255).astype("u1")


def requantized(
    sums: np.ndarray, x_scale: np.ndarray, w_scale: np.ndarray, scale: np.ndarray, zero: np.ndarray
) -> np.ndarray:
    """Codes of sums."""
    factor = (x_scale.astype("f4") * w_scale.astype("f4")) / scale.astype("f4")
    return codes(sums.astype("f4") * factor, zero)


def product(x: np.ndarray, w: np.ndarray, x_zero: int, w_zero: np.ndarray) -> np.ndarray:
    """A product of matrices."""
    left, right = x.astype("i8") - int(x_zero), w.astype("i8") - np.asarray(w_zero, "i8")
    return np.einsum("...mk,...kn->...mn", left, right).astype("i4")


def convolution(
    x: np.ndarray,
    w: np.ndarray,
    x_zero: int,
    w_zero: np.ndarray,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> np.ndarray:
    """A convolution, tap by tap."""
    top, left, bottom, right = padding
    image = np.pad(x.astype("i8") - int(x_zero), ((0, 0), (top, bottom), (left, right), (0, 0)))
    filters = w.astype("i8") - np.asarray(w_zero, "i8")
    height, width, deep, made = w.shape
    rows = (image.shape[1] - dilation[0] * (height - 1) - 1) // stride[0] + 1
    columns = (image.shape[2] - dilation[1] * (width - 1) - 1) // stride[1] + 1
    y = np.zeros((len(x), rows, columns, made), "i8")
    wide = made // groups
    for i in range(height):
        for j in range(width):
            below = image[
                :,
                i * dilation[0] : i * dilation[0] + (rows - 1) * stride[0] + 1 : stride[0],
                j * dilation[1] : j * dilation[1] + (columns - 1) * stride[1] + 1 : stride[1],
            ]
            for g in range(groups):
                part = below[..., g * deep : (g + 1) * deep] @ filters[i, j, :, g * wide : (g + 1) * wide]
                y[..., g * wide : (g + 1) * wide] += part
    return y.astype("i4")
