"""A residual network (He et al., 2016) on 8 x 8 handwritten digits.

    python examples/resnet.py              builds examples/resnet.pb
    runtime execute examples/resnet.pb     trains it, evaluating on the rows with index mod 3 = 2

Three stages at 8 x 8, 4 x 4 and 2 x 2. A block adds to its input what two convolutions make of it; where a block
halves height and width, its input goes through a 1 x 1 convolution to have the same shape.
"""

from pathlib import Path

from compiler import Program, Value, constant, he_normal, momentum, ops, warmup_cosine, zeros

STAGES = ((16, 1), (32, 2), (64, 2))  # channels and stride
BLOCKS = 1  # in each stage


def build() -> Program:
    """The training run: 10 epochs over 1,198 images."""
    program = Program("resnet", seed=1)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16
    label = program.input("label", "int64", ("batch",))

    x = ops.cast(image, dtype="float32") / 16.0
    x = ops.relu(convolution(program, "stem", x, channels=STAGES[0][0], window=3, stride=1))
    for i, (channels, stride) in enumerate(STAGES):
        for j in range(BLOCKS):
            x = residual_block(program, f"stage{i}.block{j}", x, channels=channels, stride=stride if j == 0 else 1)
    x = ops.mean(x, axes=(1, 2))
    w = program.parameter("output.w", (STAGES[-1][0], 10))
    b = program.parameter("output.b", (10,), zeros(), decay_scale=0.0)
    logits = x @ w + b

    loss = ops.softmax_cross_entropy(logits, label)
    program.minimize(loss, momentum(rate=warmup_cosine(0.1), nesterov=True, decay=1e-3))
    program.metrics(accuracy=ops.accuracy(logits, label))
    program.outputs(probabilities=ops.softmax(logits))

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True)
    program.run(epochs=10, split="train", evaluate="test")
    return program


def residual_block(program: Program, name: str, x: Value, *, channels: int, stride: int) -> Value:
    """Relu of x, or its projection, plus two convolutions of x."""
    y = ops.relu(convolution(program, f"{name}.conv1", x, channels=channels, window=3, stride=stride))
    y = convolution(program, f"{name}.conv2", y, channels=channels, window=3, stride=1)
    if x.shape != y.shape:
        x = convolution(program, f"{name}.projection", x, channels=channels, window=1, stride=stride)
    return ops.relu(x + y)


def convolution(program: Program, name: str, x: Value, *, channels: int, window: int, stride: int) -> Value:
    """A convolution without bias, then batch normalisation, whose scale and bias do not decay."""
    w = program.parameter(f"{name}.w", (window, window, int(x.shape[-1]), channels), he_normal())
    scale = program.parameter(f"{name}.scale", (channels,), constant(1.0), decay_scale=0.0)
    bias = program.parameter(f"{name}.bias", (channels,), zeros(), decay_scale=0.0)
    mean = program.buffer(f"{name}.mean", (channels,), zeros())
    variance = program.buffer(f"{name}.variance", (channels,), constant(1.0))

    y = ops.conv2d(x, w, stride=(stride, stride), padding=(window // 2,) * 4)
    y, new_mean, new_variance, *_ = ops.batch_norm(y, scale, bias, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    return y


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"))
