"""Random training programs in float32: products, convolutions, norms, residual sums, attention, recurrent layers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from prograd import Program, Value, adam, he_normal, momentum, ops, sgd, zeros

ROWS = 16
CLASSES = 7
OPTIMIZERS = (lambda: sgd(0.01), lambda: momentum(0.01), lambda: adam(0.001))


def network(seed: int) -> tuple[Program, dict[str, Any]]:
    """Return a program that trains a random network, and the rows of a step."""
    draw = random.Random(seed)
    program = Program("random", seed=seed)
    kind = draw.choice(("rows", "images", "sequences", "recurrent"))
    shapes = {"images": (10, 10, draw.choice((3, 8))), "sequences": (12, 32), "recurrent": (7, draw.choice((20, 33)))}
    shape = {"rows": (draw.choice((33, 64)),), **shapes}[kind]
    x = program.input("x", "float32", ("batch", *shape))
    label = program.input("label", "int64", ("batch",))
    h = {"rows": _rows, "images": _images, "sequences": _sequences, "recurrent": _recurrent}[kind](draw, program, x)
    logits = _dense(program, "head", h, CLASSES)
    program.minimize(ops.softmax_cross_entropy(logits, label), draw.choice(OPTIMIZERS)())
    program.outputs(logits=logits)
    rng = np.random.default_rng(seed)
    feeds = {"x": rng.normal(size=(ROWS, *shape)).astype("f4"), "label": rng.integers(0, CLASSES, ROWS)}
    return program, feeds


def _dense(program: Program, name: str, x: Value, width: int) -> Value:
    w = program.parameter(f"{name}.w", (int(x.shape[-1]), width), he_normal())
    return x @ w + program.parameter(f"{name}.b", (width,), zeros())


def _activated(draw: random.Random, x: Value) -> Value:
    x = draw.choice((ops.relu, ops.gelu, ops.tanh, ops.relu6, lambda x: ops.maximum(x, x * 0.1)))(x)
    return ops.dropout(x, ratio=0.1) if draw.random() < 0.2 else x


def _rows(draw: random.Random, program: Program, x: Value) -> Value:
    for i in range(draw.randint(1, 4)):
        width = draw.choice((32, 47, 64))
        h = _activated(draw, _dense(program, f"dense{i}", x, width))
        if draw.random() < 0.3:
            h = ops.layer_norm(h, *(program.parameter(f"norm{i}.{part}", (width,)) for part in ("scale", "bias")))[0]
        x = h + x if x.shape[-1] == width and draw.random() < 0.7 else h
    return x


def _images(draw: random.Random, program: Program, x: Value) -> Value:
    for i in range(draw.randint(1, 4)):
        channels, size, stride = draw.choice((32, 33, 40)), draw.choice((1, 3)), draw.choice((1, 1, 2))
        is_depthwise = size == 3 and draw.random() < 0.3
        channels = int(x.shape[3]) if is_depthwise else channels
        depth = 1 if is_depthwise else int(x.shape[3])
        w = program.parameter(f"conv{i}.w", (size, size, depth, channels), he_normal())
        h = ops.conv2d(x, w, stride=stride, padding=size // 2, groups=channels if is_depthwise else 1)
        if draw.random() < 0.6:
            states = [program.parameter(f"norm{i}.{part}", (channels,)) for part in ("scale", "bias")]
            states += [program.buffer(f"norm{i}.{part}", (channels,)) for part in ("mean", "variance")]
            h = ops.batch_norm(h, *states)[0]
        h = _activated(draw, h)
        x = h + x if h.shape == x.shape and draw.random() < 0.7 else h
        if int(x.shape[1]) > 4 and draw.random() < 0.3:
            x = draw.choice((ops.max_pool2d, ops.avg_pool2d))(x, window=2, stride=2)
    return ops.mean(x, axis=(1, 2))


def _sequences(draw: random.Random, program: Program, x: Value) -> Value:
    for i in range(draw.randint(1, 2)):
        n, length, width = x.shape
        scale, bias = (program.parameter(f"norm{i}.{part}", (int(width),)) for part in ("scale", "bias"))
        h = ops.layer_norm(x, scale, bias)[0]
        parts = ops.reshape(_dense(program, f"qkv{i}", h, 3 * int(width)), shape=(n, length, 3, 4, int(width) // 4))
        heads = [
            ops.transpose(ops.reshape(part, shape=(n, length, 4, int(width) // 4)), axis=(0, 2, 1, 3))
            for part in ops.split(parts, axis=2, sizes=(1, 1, 1))
        ]
        y = ops.scaled_dot_product_attention(*heads, causal=draw.random() < 0.5)
        x = x + _dense(program, f"out{i}", ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=x.shape), int(width))
        x = x + _dense(program, f"down{i}", _activated(draw, _dense(program, f"up{i}", x, 64)), int(width))
    return ops.mean(x, axis=(1,))


def _recurrent(draw: random.Random, program: Program, x: Value) -> Value:
    for i in range(draw.randint(1, 2)):
        layer, gates = draw.choice(((ops.rnn, 1), (ops.gru, 3), (ops.lstm, 4)))
        states, wide = draw.choice((24, 33, 64)), int(x.shape[-1])
        shapes = ((wide, gates * states), (states, gates * states), (gates * states,), (gates * states,))
        x = layer(x, *(program.parameter(f"layer{i}.{part}.w", shape) for part, shape in enumerate(shapes)))[0]
    return x[:, -1] if draw.random() < 0.5 else ops.mean(x, axis=(1,))
