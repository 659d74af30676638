"""Layers of networks: convolution, pooling, normalisation, attention, recurrence, resizing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler import Value, ops
from peers.spelling import Call, Inputs, many, peer, unless

Spread = int | Sequence[int]


def _batched(x: Value, rank: int, function: Callable[[Value], Any]) -> Any:
    """The function of the tensor with a batch of one where PyTorch lets the batch be left out."""
    if x.rank == rank:
        return function(x)
    return ops.squeeze(function(ops.unsqueeze(x, axis=(0,))), axis=(0,))


def _first(x: Value) -> Value:
    """Channels after the batch."""
    return ops.transpose(x, axis=(0, x.rank - 1, *range(1, x.rank - 1)))


def _last(x: Value) -> Value:
    """Channels after all other axes."""
    return ops.transpose(x, axis=(0, *range(2, x.rank), 1))


def _plus(y: Value, bias: Value | None) -> Value:
    return y if bias is None else y + ops.reshape(bias, shape=(*bias.shape, *(1,) * (y.rank - 2)))


@peer("nn.functional.conv1d", "conv1d", "conv", "conv2d")
@peer("nn.functional.conv2d", "conv", "conv2d", "conv2d_input_gradient", "conv2d_filter_gradient")
@peer("nn.functional.conv3d", "conv3d", "conv", "conv2d")
def conv(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Spread = 1,
    padding: Spread | str = 0,
    dilation: Spread = 1,
    groups: int = 1,
) -> Value:
    axes = w.rank - 2
    spread = many(dilation, axes)
    if isinstance(padding, str):
        wide = [d * (int(n) - 1) if padding == "same" else 0 for d, n in zip(spread, w.shape[2:], strict=True)]
        edges = (*(n // 2 for n in wide), *(n - n // 2 for n in wide))
    else:
        edges = many(padding, axes)
    window = dict(stride=many(stride, axes), padding=edges, dilation=spread)
    conv = (ops.conv1d, ops.conv, ops.conv3d)[axes - 1]
    return _batched(x, w.rank, lambda z: _plus(conv(z, w, groups=groups, layout="NCHW", **window), bias))


@peer("nn.functional.conv_transpose1d", "conv_transpose", "conv2d_input_gradient")
@peer("nn.functional.conv_transpose2d", "conv_transpose", "conv2d_input_gradient")
@peer("nn.functional.conv_transpose3d", "conv_transpose")
def conv_transpose(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Spread = 1,
    padding: Spread = 0,
    output_padding: Spread = 0,
    groups: int = 1,
    dilation: Spread = 1,
) -> Value:
    axes = w.rank - 2
    window = dict(
        stride=many(stride, axes),
        padding=many(padding, axes),
        output_padding=many(output_padding, axes),
        dilation=many(dilation, axes),
    )
    return _batched(x, w.rank, lambda z: _plus(ops.conv_transpose(z, w, groups=groups, layout="NCHW", **window), bias))


def _depthwise_inputs(rng: np.random.Generator) -> list[Call]:
    x, w = rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(6, 1, 3, 2))
    return [([x, w], dict(groups=3)), ([x, w], dict(groups=3, stride=(2, 1), padding=(1, 1)))]


@peer("nn.functional.conv2d", "depthwise_conv", inputs=_depthwise_inputs)
def depthwise_conv(x: Value, w: Value, groups: int, stride: Spread = 1, padding: Spread = 0) -> Value:
    """PyTorch has the filters of a channel one after another; here they are an axis."""
    filters = ops.reshape(w, shape=(groups, -1, *w.shape[2:]))
    filters = ops.transpose(filters, axis=(2, 3, 0, 1))
    return _first(ops.depthwise_conv(_last(x), filters, stride=many(stride, 2), padding=many(padding, 2)))


MAXIMA = ("max_pool", "max_pool2d", "max_pool2d_input_gradient", "max_pool2d_select")
MEANS = ("avg_pool", "avg_pool2d", "avg_pool2d_input_gradient")

for axes in (1, 2, 3):  # how many is in the name of PyTorch's function, and nowhere else

    @peer(f"nn.functional.max_pool{axes}d", *MAXIMA)
    def max_pool(
        x: Value,
        kernel_size: Spread,
        stride: Spread | None = None,
        padding: Spread = 0,
        dilation: Spread = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        *,
        axes: int = axes,
    ) -> Value:
        unless(return_indices, "the places of maxima as a result (return_indices)")
        window = dict(window=many(kernel_size, axes), stride=many(stride, axes), padding=many(padding, axes))
        more = dict(dilation=many(dilation, axes), ceil_mode=ceil_mode, layout="NCHW")
        return _batched(x, axes + 2, lambda z: ops.max_pool(z, **window, **more))

    @peer(f"nn.functional.avg_pool{axes}d", *MEANS)
    def avg_pool(
        x: Value,
        kernel_size: Spread,
        stride: Spread | None = None,
        padding: Spread = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        axes: int = axes,
    ) -> Value:
        unless(divisor_override is not None, "another divisor (divisor_override)")
        window = dict(window=many(kernel_size, axes), stride=many(stride, axes), padding=many(padding, axes))
        more = dict(ceil_mode=ceil_mode, count_include_pad=count_include_pad, layout="NCHW")
        return _batched(x, axes + 2, lambda z: ops.avg_pool(z, **window, **more))

    @peer(f"nn.functional.adaptive_avg_pool{axes}d", "adaptive_avg_pool")
    def adaptive_avg_pool(x: Value, output_size: Any, *, axes: int = axes) -> Value:
        size = _output_size(x, output_size, axes)
        return _batched(x, axes + 2, lambda z: ops.adaptive_avg_pool(z, size=size, layout="NCHW"))

    @peer(f"nn.functional.adaptive_max_pool{axes}d", "adaptive_max_pool")
    def adaptive_max_pool(x: Value, output_size: Any, return_indices: bool = False, *, axes: int = axes) -> Value:
        unless(return_indices, "the places of maxima as a result (return_indices)")
        size = _output_size(x, output_size, axes)
        return _batched(x, axes + 2, lambda z: ops.adaptive_max_pool(z, size=size, layout="NCHW"))

    def _lp_inputs(rng: np.random.Generator, *, axes: int = axes) -> list[Call]:
        x = rng.uniform(0.5, 2.0, size=(2, 3, 6, 5, 7)[: axes + 2])
        return [([x, p, 2], {}) for p in (1.0, 2.0, 3.0)] + [([x, 2.0, 3], dict(stride=2))]

    @peer(
        f"nn.functional.lp_pool{axes}d",
        "lp_pool",
        inputs=_lp_inputs,
        note="positive numbers and whole windows: PyTorch takes no absolute value, and scales means of partial windows",
    )
    def lp_pool(
        x: Value,
        norm_type: float,
        kernel_size: int,
        stride: int | None = None,
        ceil_mode: bool = False,
        *,
        axes: int = axes,
    ) -> Value:
        window = dict(window=many(kernel_size, axes), stride=many(stride, axes))
        return ops.lp_pool(x, p=norm_type, ceil_mode=ceil_mode, layout="NCHW", **window)

    def _whole_inputs(rng: np.random.Generator, *, axes: int = axes) -> list[Call]:
        return [([rng.normal(size=(2, 3, 4, 5, 2)[: axes + 2]), 1], {})]

    @peer(f"nn.functional.adaptive_avg_pool{axes}d", "global_avg_pool", inputs=_whole_inputs)
    def global_avg_pool(x: Value, output_size: int) -> Value:
        return ops.global_avg_pool(x, layout="NCHW")

    @peer(f"nn.functional.adaptive_max_pool{axes}d", "global_max_pool", inputs=_whole_inputs)
    def global_max_pool(x: Value, output_size: int) -> Value:
        return ops.global_max_pool(x, layout="NCHW")


def _output_size(x: Value, size: Any, axes: int) -> tuple[int, ...]:
    sizes = [size] * axes if isinstance(size, int) else list(size)
    sizes = sizes * axes if len(sizes) == 1 else sizes
    return tuple(int(n) if s is None else s for s, n in zip(sizes, x.shape[-axes:], strict=True))


@peer("nn.functional.layer_norm", "layer_norm")
def layer_norm(
    x: Value, shape: Sequence[int], weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5
) -> Value:
    return ops.layer_norm(x, weight, bias, axis=x.rank - len(shape), epsilon=eps)[0]


@peer("nn.functional.rms_norm", "rms_norm")
def rms_norm(x: Value, shape: Sequence[int], weight: Value | None = None, eps: float | None = None) -> Value:
    epsilon = float(np.finfo(np.float64).eps) if eps is None else eps
    return ops.rms_norm(x, weight, axis=x.rank - len(shape), epsilon=epsilon)[0]


@peer("nn.functional.group_norm", "group_norm")
def group_norm(
    x: Value, groups: int, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5
) -> Value:
    return _first(ops.group_norm(_last(x), weight, bias, groups=groups, epsilon=eps)[0])


@peer("nn.functional.instance_norm", "instance_norm")
def instance_norm(
    x: Value,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    weight: Value | None = None,
    bias: Value | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    unless(not use_input_stats, "running statistics of instances")
    scale, shift = (
        ops.full.on(x.block)(shape=(x.shape[1],), value=value, dtype=x.dtype) if given is None else given
        for given, value in ((weight, 1.0), (bias, 0.0))
    )
    return _first(ops.instance_norm(_last(x), scale, shift, epsilon=eps))


@peer("nn.functional.batch_norm", "batch_norm")
@peer("nn.functional.batch_norm", "batch_norm", variant="without_cudnn")
def batch_norm(
    x: Value,
    running_mean: Value | None,
    running_var: Value | None,
    weight: Value | None = None,
    bias: Value | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    unless(x.rank < 2, "a batch without channels")
    unless(not training, "running statistics; batch_norm has them outside training")
    zeros, ones = (ops.full.on(x.block)(shape=(x.shape[1],), value=v, dtype=x.dtype) for v in (0.0, 1.0))
    scale, shift = ones if weight is None else weight, zeros if bias is None else bias
    return _first(ops.batch_norm(_last(x), scale, shift, zeros, ones, epsilon=eps)[0])


def _channel_inputs(rng: np.random.Generator) -> list[Call]:
    x = rng.normal(size=(2, 7, 3, 2))
    return [([x, 3], {}), ([x, 5], dict(alpha=0.3, beta=0.6, k=1.5)), ([x[..., 0], 1], dict(beta=0.5))]


@peer("nn.functional.local_response_norm", "local_response_norm", inputs=_channel_inputs)
@peer("nn.functional.local_response_norm", "local_response_norm")
def local_response_norm(x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Value:
    unless(size % 2 == 0, "an even number of channels, where the sides differ (that is ONNX's definition)")
    return _first(ops.local_response_norm(_last(x), size=size, alpha=alpha, beta=beta, bias=k))


@peer("nn.functional.scaled_dot_product_attention", "scaled_dot_product_attention", "attention_gradient")
def attention(
    q: Value,
    k: Value,
    v: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    unless(dropout_p > 0, "random numbers of another generator")
    rank = max(q.rank, k.rank)
    q, k, v = (ops.unsqueeze(x, axis=(0,)) if x.rank == 3 else x for x in (q, k, v))
    if q.shape[0] != k.shape[0]:
        q, k, v = (ops.broadcast_to(x, shape=(max(q.shape[0], k.shape[0]), *x.shape[1:])) for x in (q, k, v))
    y = ops.scaled_dot_product_attention(q, k, v, attn_mask, causal=is_causal, scale=scale or 0.0)
    return y if rank == 4 else ops.squeeze(y, axis=(0,))


INTERPOLATE = {
    "nearest": dict(mode="nearest", coordinates="asymmetric", nearest_mode="floor"),
    "nearest-exact": dict(mode="nearest", coordinates="half_pixel", nearest_mode="round_prefer_ceil"),
    "linear": dict(mode="linear"),
    "bilinear": dict(mode="linear"),
    "trilinear": dict(mode="linear"),
    "bicubic": dict(mode="cubic"),
}

for variant in INTERPOLATE:

    @peer("nn.functional.interpolate", "resize", variant=variant)
    def interpolate(
        x: Value,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
        antialias: bool = False,
    ) -> Value:
        axes = x.rank - 2
        if size is None:
            factors = [scale_factor] * axes if isinstance(scale_factor, float | int) else list(scale_factor)
            size = [int(int(n) * f) for n, f in zip(x.shape[2:], factors, strict=True)]
            whole = all(int(n) * f == s for n, f, s in zip(x.shape[2:], factors, size, strict=True))
            unless(not whole and not recompute_scale_factor, "a factor that is not the quotient of the sizes")
        how = dict(INTERPOLATE[mode])
        if mode not in ("nearest", "nearest-exact"):
            how["coordinates"] = "align_corners" if align_corners else "half_pixel"
        return ops.resize(x, size=many(size, axes), axis=tuple(range(2, x.rank)), **how)


def _factor_inputs(rng: np.random.Generator) -> list[Call]:
    shapes = ((2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4, 2))
    calls = [([rng.normal(size=shape)], dict(scale_factor=2)) for shape in shapes]
    return [*calls, ([rng.normal(size=shapes[1])], dict(scale_factor=3, mode="bilinear"))]


@peer("nn.functional.interpolate", "upsample", inputs=_factor_inputs)
def upsample(x: Value, scale_factor: int, mode: str = "nearest") -> Value:
    how = dict(mode="linear") if mode == "bilinear" else dict(mode="nearest", coordinates="half_pixel")
    return _first(ops.upsample(_last(x), factors=(scale_factor,) * (x.rank - 2), **how))


@peer("nn.functional.grid_sample", "grid_sample")
def grid_sample(
    x: Value, grid: Value, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Value:
    unless(x.rank != 4, "volumes")
    how = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    y = ops.grid_sample(_last(x), grid, mode=how, padding_mode=padding_mode, align_corners=bool(align_corners))
    return _first(y)


def _recurrent_inputs(states: int, gates: int) -> Inputs:
    def inputs(rng: np.random.Generator) -> list[Call]:
        calls: list[Call] = []
        for layers, directions in ((1, 1), (2, 1), (1, 2), (2, 2)):
            x, units = rng.normal(size=(3, 4, 5)), 2
            first = [rng.normal(size=(layers * directions, 3, units)) for _ in range(states)]
            weights = [
                0.7 * rng.normal(size=shape)
                for layer in range(layers)
                for _ in range(directions)
                for shape in (
                    (gates * units, units * directions if layer else 5),
                    (gates * units, units),
                    (gates * units,),
                    (gates * units,),
                )
            ]
            hidden = first if states > 1 else first[0]
            calls.append(([x, hidden, weights, True, layers, 0.0, True, directions == 2, True], {}))
        return calls

    return inputs


def _weights(weights: Sequence[Value]) -> list[Value]:
    return [ops.transpose(w) if w.rank == 2 else w for w in weights]


@peer("lstm", "lstm", "lstm_layer", "lstm_layer_gradient", inputs=_recurrent_inputs(2, 4))
def lstm(x: Value, first: Sequence[Value], weights: Sequence[Value], *how: Any) -> list[Value]:
    hidden, cell = first
    return list(ops.lstm(x, *_weights(weights), hidden=hidden, cell=cell, bidirectional=how[4]))


@peer("gru", "gru", "gru_layer", "gru_layer_gradient", inputs=_recurrent_inputs(1, 3))
def gru(x: Value, hidden: Value, weights: Sequence[Value], *how: Any) -> list[Value]:
    return list(ops.gru(x, *_weights(weights), hidden=hidden, bidirectional=how[4]))


@peer("rnn_tanh", "rnn", "rnn_layer", "rnn_layer_gradient", inputs=_recurrent_inputs(1, 1))
def rnn(x: Value, hidden: Value, weights: Sequence[Value], *how: Any) -> list[Value]:
    return list(ops.rnn(x, *_weights(weights), hidden=hidden, bidirectional=how[4]))
