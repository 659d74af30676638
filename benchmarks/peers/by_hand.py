"""The networks of `imported.py` written with `prograd.layers`, for `from_pytorch.py`: the same sizes, other weights."""

from __future__ import annotations

from collections.abc import Callable

from prograd import Program, Value, layers, normal, ops


def resnet18(program: Program, image: Value, classes: int) -> Value:
    """Return the logits of images with channels first."""
    x = ops.transpose(image, axis=(0, 2, 3, 1))
    x = ops.relu(_normed(x, "stem", 64, window=7, stride=2))
    x = ops.max_pool2d(ops.pad(x, before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=float("-inf")), window=3, stride=2)
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"stage{stage}.{block}", 2 if stage and not block else 1
            y = ops.relu(_normed(x, f"{name}.0", width, window=3, stride=stride))
            y = _normed(y, f"{name}.1", width, window=3, stride=1)
            kept = _normed(x, f"{name}.short", width, window=1, stride=stride) if stride > 1 else x
            x = ops.relu(y + kept)
    return layers.dense(ops.mean(x, axis=(1, 2)), "head", classes)


def _normed(x: Value, name: str, width: int, *, window: int, stride: int) -> Value:
    y = layers.conv(x, name, width, window=window, stride=stride, bias=False)
    return layers.batch_norm(y, f"{name}.norm")


def bert(program: Program, codes: Value, classes: int) -> Value:
    """Return the logits of texts, by the first position."""
    size = 256
    x = layers.embedding(codes, "words", 8000, size, padding_index=0)
    x = x + program.parameter("kind", (size,)) + program.parameter("places", (128, size))
    x = layers.layer_norm(x, "norm", epsilon=1e-12)
    for number in range(4):
        name = f"layer{number}"
        x = layers.layer_norm(x + layers.attention(x, f"{name}.attention", 4), f"{name}.norm1", epsilon=1e-12)
        y = layers.dense(ops.gelu(layers.dense(x, f"{name}.wide", 1024)), f"{name}.narrow", size)
        x = layers.layer_norm(x + y, f"{name}.norm2", epsilon=1e-12)
    return layers.dense(ops.tanh(layers.dense(x[:, 0], "pool", size)), "head", classes)


def gpt2(program: Program, codes: Value, classes: int) -> Value:
    """Return the logits of the next word at each position, by the table of words."""
    size = 256
    table = program.parameter("words", (8000, size), normal(0.0, 0.02))
    x = ops.gather(table, codes) + program.parameter("places", (128, size))
    for number in range(4):
        name = f"layer{number}"
        y = layers.attention(layers.layer_norm(x, f"{name}.norm1"), f"{name}.attention", 4, causal=True)
        x = x + y
        y = layers.dense(layers.layer_norm(x, f"{name}.norm2"), f"{name}.wide", 1024)
        x = x + layers.dense(ops.gelu(y, approximate="tanh"), f"{name}.narrow", size)
    return ops.matmul(layers.layer_norm(x, "norm"), table, transpose_b=True)


def vit_b_16(program: Program, image: Value, classes: int) -> Value:
    """Return the logits of images with channels first, by a row that is added."""
    size = 768
    x = layers.conv(ops.transpose(image, axis=(0, 2, 3, 1)), "patches", size, window=16, stride=16, padding="none")
    x = ops.reshape(x, shape=("batch", 36, size))
    first = ops.broadcast_to(program.parameter("first", (1, 1, size)), shape=("batch", 1, size))
    x = ops.concat(first, x, axis=1) + program.parameter("places", (37, size))
    for number in range(12):
        name = f"layer{number}"
        x = x + layers.attention(layers.layer_norm(x, f"{name}.norm1", epsilon=1e-6), f"{name}.attention", 12)
        y = layers.dense(layers.layer_norm(x, f"{name}.norm2", epsilon=1e-6), f"{name}.wide", 3072)
        x = x + layers.dense(ops.gelu(y), f"{name}.narrow", size)
    return layers.dense(layers.layer_norm(x, "norm", epsilon=1e-6)[:, 0], "head", classes)


def mobilenet_v3_small(program: Program, image: Value, classes: int) -> Value:
    """Return the logits of images with channels first."""
    x = ops.transpose(image, axis=(0, 2, 3, 1))
    x = ops.hard_swish(_small(x, "stem", 16, window=3, stride=2))
    for number, block in enumerate(MOBILENET):
        x = _bottleneck(x, f"block{number}", *block)
    x = ops.mean(ops.hard_swish(_small(x, "last", 576)), axis=(1, 2))
    return layers.dense(ops.hard_swish(layers.dense(x, "wide", 1024)), "head", classes)


MOBILENET = [
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
]
"""The blocks of MobileNetV3-Small: window, hidden and final channels, excitation, hard_swish, stride. Howard, 2019."""


def _bottleneck(x: Value, name: str, window: int, hidden: int, size: int, excited: bool, swish: bool, stride: int):
    before = x.shape[-1]
    act = ops.hard_swish if swish else ops.relu
    y = act(_small(x, f"{name}.expand", hidden)) if hidden != before else x
    y = act(_small(y, f"{name}.depth", hidden, window=window, stride=stride, groups=hidden))
    if excited:
        squeezed = max(8, (hidden // 4 + 4) // 8 * 8)
        gate = ops.relu(layers.conv(ops.mean(y, axis=(1, 2), keepdims=True), f"{name}.squeeze", squeezed, window=1))
        y = y * ops.hard_sigmoid(layers.conv(gate, f"{name}.excite", hidden, window=1))
    y = _small(y, f"{name}.project", size)
    return x + y if stride == 1 and before == size else y


def _small(x: Value, name: str, width: int, *, window: int = 1, stride: int = 1, groups: int = 1) -> Value:
    y = layers.conv(x, name, width, window=window, stride=stride, groups=groups, bias=False)
    return layers.batch_norm(y, f"{name}.norm", momentum=0.99, epsilon=1e-3)


BY_HAND: dict[str, Callable[[Program, Value, int], Value]] = {
    "mobilenet_v3_small": mobilenet_v3_small,
    "resnet18": resnet18,
    "vit_b_16": vit_b_16,
    "bert": bert,
    "gpt2": gpt2,
}
"""For each network, a function of a program, its input and the number of classes that returns the logits."""
