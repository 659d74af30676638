"""Random changes of rows in training: flips, crops, colour, noise, cutout, mixup.

Outside training, rows stay as they are. Images are [n, h, w, c], and each row of a batch draws numbers of its own: they
are functions of the seed, the stream of the op, the step and the position, as in the families random and sampling. All
but `when_training` are composed of other operators.
"""

from __future__ import annotations

import math  # a star import of its names would shadow operators

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import normal_axes, require_float, size_known
from prograd_proto.result_types.windows import require_image
from registry.errors import require
from registry.op import op
from registry.ops.arrange import flip
from registry.ops.copy import cast
from registry.ops.fill import full_like, range
from registry.ops.index import gather
from registry.ops.order import argsort
from registry.ops.pointwise import cos, greater_equal, less, logical_and, maximum, pow, sqrt, where
from registry.ops.random import normal, uniform
from registry.ops.reduce import mean
from registry.ops.sampling import bernoulli, randint
from registry.ops.scatter import gather_nd
from registry.ops.shape import pad, reshape
from registry.spelled import spelled
from registry.spellings import Axis, Numbers, as_tuple
from registry.traits import exact
from registry.value import Value

LUMA = 0.299, 0.587, 0.114
"""Weights of red, green and blue in the brightness of a pixel (ITU-R BT.601)."""

MIN_REST = 1e-12
"""Lower bound on 1 - u ** (1 / alpha), which rounding may make 0."""


@exact
@op
def when_training(training: Value, prediction: Value) -> TensorType:
    """Return `training` in entries that train, and `prediction` in all others; both have one type."""
    ...


@when_training.gradient
def when_training_gradient(training: Value, dy: Value) -> tuple[Value, Value]:
    nothing = full_like(dy, -0.0)  # x + (-0.0) keeps every bit, so `simplify` removes the addition
    return when_training(dy, nothing), when_training(nothing, dy)


@when_training.inference
def when_training_inference(prediction: Value) -> Value:
    return prediction


@spelled
def random_flip(x: Value, *, axis: Axis = 2, probability: float = 0.5) -> Value:
    """Return x with each row (first axis) reversed along `axis` with that probability, in training only.

    Axis 2 of images [n, h, w, c] exchanges left and right, axis 1 top and bottom. With several axes, a row is reversed
    along all of them or none.
    """
    axes = normal_axes(axis, x.rank)
    require(0 not in axes, "axis 0 is the rows, which are not reversed")
    require(0 <= probability <= 1, f"probability={probability} is not in [0, 1]")
    flipped = flip(x, axis=axes)
    chosen = bernoulli.on(x.block)(shape=_one_per_row(x), probability=probability)
    return when_training(where(chosen, flipped, x), x)


@spelled
def random_crop(x: Value, *, padding: Numbers = 4, value: float = 0.0) -> Value:
    """Return images [n, h, w, c] shifted, each row by its own offset of up to `padding` pixels, in training only.

    As in He et al., 2016, the image is padded by `value` on all sides, and a window of its former size is cut out at a
    random position; all positions are equally likely. `padding` is a number, or one for the height and one for the
    width.
    """
    height, width, channels = _image(x)
    margins = as_tuple(padding)
    margins = margins * 2 if len(margins) == 1 else margins
    require(len(margins) == 2 and min(margins) >= 0, f"padding={padding} is not one or two numbers from 0 on")
    above, left = margins
    if not above and not left:
        return x
    edges = (0, above, left, 0)
    padded = pad(x, before=edges, after=edges, value=value)
    across = width + 2 * left
    first = _offset(x, 2 * above + 1) * across + _offset(x, 2 * left + 1)
    block = x.block
    down = reshape(range.on(block)(stop=height), shape=(1, height, 1))
    right = reshape(range.on(block)(stop=width), shape=(1, 1, width))
    pixels = reshape(first + (down * across + right), shape=(x.shape[0], height * width, 1))
    flat = reshape(padded, shape=(x.shape[0], (height + 2 * above) * across, channels))
    cropped = reshape(gather_nd(flat, pixels, batch_axes=1), shape=x.shape)
    return when_training(cropped, x)


@spelled
def random_colour(x: Value, *, brightness: float = 0.0, contrast: float = 0.0, saturation: float = 0.0) -> Value:
    """Return float images [n, h, w, c] with changed colours, in training only.

    In this order, each image is multiplied by a factor, its distance from its mean brightness is, and the distance of
    each pixel from its own brightness is. A factor is uniform from 1 - s to 1 + s for the strength s of that name.
    Brightness is that of ITU-R BT.601 for three channels, and else the mean of the channels, of which saturation needs
    three. Nothing is clipped: `ops.clip` does so.
    """
    require_float(x)
    _, _, channels = _image(x)
    for name, strength in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
        require(0 <= strength <= 1, f"{name}={strength} is not in [0, 1]")
    require(not saturation or channels == 3, f"saturation is of 3 channels, and x has {channels}")
    y = x
    if brightness:
        y = y * _factor(x, brightness)
    if contrast:
        middle = mean(_luma(y, channels), axis=(1, 2), keepdims=True)
        y = middle + (y - middle) * _factor(x, contrast)
    if saturation:
        grey = _luma(y, channels)
        y = grey + (y - grey) * _factor(x, saturation)
    return when_training(y, x)


@spelled
def random_noise(x: Value, *, deviation: float = 0.1) -> Value:
    """Return floats x with normal numbers of mean 0 and that standard deviation added, in training only."""
    require_float(x)
    require(deviation >= 0, f"deviation={deviation} is negative")
    noise = normal.on(x.block)(shape=x.shape, deviation=deviation, dtype=x.dtype)
    return when_training(x + noise, x)


@spelled
def random_cutout(x: Value, *, size: Numbers, value: float = 0.0) -> Value:
    """Return images [n, h, w, c] with a rectangle of each replaced by `value`, in training only.

    `size` is a number of pixels, or a height and a width. The centre is a pixel of the image, so a part of the
    rectangle may be outside: DeVries and Taylor, 2017.
    """
    height, width, _ = _image(x)
    extents = as_tuple(size)
    extents = extents * 2 if len(extents) == 1 else extents
    require(len(extents) == 2 and min(extents) > 0, f"size={size} is not one or two numbers from 1 on")
    inside = None
    for axis, (extent, count) in enumerate(zip(extents, (height, width), strict=True), start=1):
        first = _offset(x, count, low=-(extent // 2), rank=4)
        shape = (1, count, 1, 1) if axis == 1 else (1, 1, count, 1)
        position = reshape(range.on(x.block)(stop=count), shape=shape)
        along = logical_and(greater_equal(position, first), less(position, first + extent))
        inside = along if inside is None else logical_and(inside, along)
    assert inside is not None, "an image has a height and a width"
    return when_training(where(inside, full_like(x, value), x), x)


@spelled
def mixup(x: Value, target: Value, *, alpha: float = 0.2) -> tuple[Value, Value]:
    """Return rows x and their targets, each mixed with those of another row, in training only: Zhang et al., 2018.

    Row i becomes m * row i + (1 - m) * row j, where j is from a random permutation of the rows, and m from the
    distribution Beta(alpha, alpha), drawn for each row by Devroye's formula (1996). Targets are floats, such as
    `ops.one_hot(label, depth=10)` for `ops.cross_entropy`.
    """
    require_float(x)
    require_float(target)
    require(x.rank >= 1 and target.rank >= 1, "x and target need an axis of rows")
    require(x.shape[0] == target.shape[0], f"x has {x.shape[0]} rows and target {target.shape[0]}")
    require(0 < alpha < math.inf, f"alpha={alpha} is not positive")
    rows = x.shape[0]
    partner = argsort(uniform.on(x.block)(shape=(rows,), dtype="float64"))
    share = _beta(x, alpha)

    def mixed(a: Value) -> Value:
        m = reshape(cast(share, dtype=a.dtype), shape=(rows, *[1] * (a.rank - 1)))
        return when_training(a * m + gather(a, partner) * (1.0 - m), a)

    return mixed(x), mixed(target)


def _beta(x: Value, alpha: float) -> Value:
    """Return a number of Beta(alpha, alpha) for each row of x, float64: 1/2 + c / 2 sqrt(q / (1 - q) + c * c).

    Here c is the cosine of a uniform angle, and q is u ** (1 / alpha) for a uniform number u.
    """
    draw = uniform.on(x.block)
    q = pow(draw(shape=(x.shape[0],), dtype="float64"), 1.0 / alpha)
    c = cos(draw(shape=(x.shape[0],), high=2 * math.pi, dtype="float64"))
    return 0.5 + 0.5 * c / sqrt(q / maximum(1.0 - q, MIN_REST) + c * c)


def _factor(x: Value, strength: float) -> Value:
    """Return a uniform number from 1 - strength to 1 + strength for each row."""
    low, high = 1.0 - strength, 1.0 + strength
    return uniform.on(x.block)(shape=_one_per_row(x), low=low, high=high, dtype=x.dtype)


def _luma(x: Value, channels: int) -> Value:
    """Return the brightness of each pixel, [n, h, w, 1]."""
    if channels != 3:
        return mean(x, axis=(-1,), keepdims=True)
    red, green, blue = LUMA
    return x[..., 0:1] * red + x[..., 1:2] * green + x[..., 2:3] * blue


def _offset(x: Value, count: int, *, low: int = 0, rank: int = 3) -> Value:
    """Return a random integer in [low, low + count) for each row, in a tensor of that rank."""
    return randint.on(x.block)(shape=(x.shape[0], *[1] * (rank - 1)), low=low, high=low + count)


def _one_per_row(x: Value) -> tuple[int | str, ...]:
    return (x.shape[0], *[1] * (x.rank - 1))


def _image(x: Value) -> tuple[int, int, int]:
    """Return height, width and channels of images; raise OpError for other tensors."""
    require_image(x)
    height, width, channels = (size_known(extent, "an extent of an image") for extent in x.shape[1:])
    require(min(height, width, channels) > 0, "the images have no pixels")
    return height, width, channels
