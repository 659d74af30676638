"""The networks of the memory benchmarks, as training programs: LeNet, ResNet-18, an LSTM and a transformer."""

from __future__ import annotations

from collections.abc import Callable

from compiler import Program, Value, constant, he_normal, momentum, ops, zeros
from compiler.train.optimizers import Optimizer


def lenet(optimizer: Optimizer | None = None) -> Program:
    """LeNet-5 with relu on 28 x 28 images; LeCun et al., 1998. 61,706 parameters."""
    program = Program("lenet")
    x, label = program.input("image", "float32", ("n", 28, 28, 1)), program.input("label", "int64", ("n",))
    x = ops.max_pool2d(ops.relu(convolution(program, "c1", x, 6, size=5, bias=True)), window=(2, 2), stride=(2, 2))
    x = ops.relu(convolution(program, "c2", x, 16, size=5, padding=0, bias=True))
    x = ops.max_pool2d(x, window=(2, 2), stride=(2, 2))
    x = ops.reshape(x, shape=("n", 400))
    for i, width in enumerate((120, 84)):
        x = ops.relu(dense(program, f"f{i}", x, width))
    program.minimize(ops.softmax_cross_entropy(dense(program, "out", x, 10), label), optimizer or momentum(0.1))
    return program


def resnet18(optimizer: Optimizer | None = None, *, size: int = 32) -> Program:
    """ResNet-18 on `size` x `size` images; He et al., 2016. The first layers are those of its ImageNet form from 64 on.

    11.2 million parameters.
    """
    program = Program("resnet18")
    x, label = program.input("image", "float32", ("n", size, size, 3)), program.input("label", "int64", ("n",))
    if size < 64:
        x = ops.relu(normalised(program, "stem", convolution(program, "stem", x, 64)))
    else:
        x = ops.relu(normalised(program, "stem", convolution(program, "stem", x, 64, size=7, stride=2)))
        x = ops.max_pool2d(x, window=(3, 3), stride=(2, 2), padding=(1, 1))
    for i, (channels, stride) in enumerate(
        ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))
    ):
        x = residual(program, f"block{i}", x, channels, stride)
    logits = dense(program, "out", ops.mean(x, axis=(1, 2)), 10)
    program.minimize(ops.softmax_cross_entropy(logits, label), optimizer or momentum(0.1))
    return program


def lstm(optimizer: Optimizer | None = None, *, steps: int = 64, width: int = 256) -> Program:
    """A two-layer LSTM over `steps` vectors of 64 numbers, classified by its last state. 0.9 million parameters."""
    program = Program("lstm")
    x, label = program.input("x", "float32", ("n", steps, 64)), program.input("label", "int64", ("n",))
    weights: list[Value] = []
    for i, inputs in enumerate((64, width)):
        shapes = {"input": (inputs, 4 * width), "state": (width, 4 * width), "b1": (4 * width,), "b2": (4 * width,)}
        weights += [program.parameter(f"layer{i}.{name}", shape) for name, shape in list(shapes.items())[:2]]
        weights += [program.parameter(f"layer{i}.{name}", shape, zeros()) for name, shape in list(shapes.items())[2:]]
    y, _, _ = ops.lstm(x, *weights)
    last = ops.reshape(y[:, steps - 1 :], shape=("n", width))
    program.minimize(ops.softmax_cross_entropy(dense(program, "out", last, 10), label), optimizer or momentum(0.1))
    return program


def transformer(
    optimizer: Optimizer | None = None, *, layers: int = 4, length: int = 64, width: int = 128, heads: int = 4
) -> Program:
    """A pre-norm decoder over `length` tokens of 256 kinds; Vaswani et al., 2017. 0.9 million parameters."""
    program = Program("transformer")
    token = program.input("token", "int64", ("n", length))
    target = program.input("target", "int64", ("n", length))
    x = ops.embedding(program.parameter("embedding", (256, width)), token)
    x = x + program.parameter("position", (length, width))
    for i in range(layers):
        x = x + attention(program, f"layer{i}", norm(program, f"layer{i}.norm1", x), heads)
        h = ops.gelu(dense(program, f"layer{i}.up", norm(program, f"layer{i}.norm2", x), 4 * width))
        x = x + dense(program, f"layer{i}.down", h, width)
    logits = dense(program, "out", norm(program, "norm", x), 256)
    program.minimize(ops.softmax_cross_entropy(logits, target), optimizer or momentum(0.1))
    return program


NETWORKS: dict[str, Callable[[], Program]] = {
    "LeNet": lenet,
    "ResNet-18": resnet18,
    "LSTM": lstm,
    "transformer": transformer,
}


def dense(program: Program, name: str, x: Value, width: int) -> Value:
    """The product with a matrix, and a bias."""
    w = program.parameter(f"{name}.w", (int(x.shape[-1]), width))
    return x @ w + program.parameter(f"{name}.b", (width,), zeros())


def convolution(
    program: Program,
    name: str,
    x: Value,
    channels: int,
    *,
    size: int = 3,
    stride: int = 1,
    padding: int | None = None,
    bias: bool = False,
) -> Value:
    """A square convolution that keeps height and width but for its stride."""
    w = program.parameter(f"{name}.w", (size, size, int(x.shape[-1]), channels), he_normal())
    edge = size // 2 if padding is None else padding
    y = ops.conv2d(x, w, stride=(stride, stride), padding=(edge,) * 4)
    return y + program.parameter(f"{name}.b", (channels,), zeros()) if bias else y


def normalised(program: Program, name: str, x: Value) -> Value:
    """Batch normalisation with running statistics."""
    channels = (int(x.shape[-1]),)
    scale, bias = (
        program.parameter(f"{name}.scale", channels, constant(1.0)),
        program.parameter(f"{name}.bias", channels),
    )
    mean, variance = (
        program.buffer(f"{name}.mean", channels),
        program.buffer(f"{name}.variance", channels, constant(1.0)),
    )
    y, new_mean, new_variance, *_ = ops.batch_norm(x, scale, bias, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    return y


def residual(program: Program, name: str, x: Value, channels: int, stride: int) -> Value:
    """The basic block: two convolutions beside a shortcut, which is a convolution where the shape changes."""
    y = ops.relu(normalised(program, f"{name}.1", convolution(program, f"{name}.1", x, channels, stride=stride)))
    y = normalised(program, f"{name}.2", convolution(program, f"{name}.2", y, channels))
    if stride > 1:
        x = convolution(program, f"{name}.shortcut", x, channels, size=1, stride=stride, padding=0)
        x = normalised(program, f"{name}.shortcut", x)
    return ops.relu(x + y)


def norm(program: Program, name: str, x: Value) -> Value:
    """Layer normalisation over the last axis."""
    width = (int(x.shape[-1]),)
    scale, bias = (
        program.parameter(f"{name}.scale", width, constant(1.0)),
        program.parameter(f"{name}.bias", width, zeros()),
    )
    return ops.layer_norm(x, scale, bias)[0]


def attention(program: Program, name: str, x: Value, heads: int) -> Value:
    """Causal self-attention of several heads."""
    n, length, width = x.shape

    def split(part: str) -> Value:
        y = ops.reshape(dense(program, f"{name}.{part}", x, int(width)), shape=(n, length, heads, int(width) // heads))
        return ops.transpose(y, axis=(0, 2, 1, 3))

    y = ops.scaled_dot_product_attention(split("q"), split("k"), split("v"), causal=True)
    return dense(
        program, f"{name}.o", ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=(n, length, width)), int(width)
    )
