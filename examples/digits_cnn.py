"""A small convolutional network on 8 x 8 handwritten digits: the program that the README runs.

python examples/digits_cnn.py              builds examples/digits_cnn.pb
runtime execute examples/digits_cnn.pb     trains it, evaluating on the rows with index mod 3 = 2
"""

from pathlib import Path

from compiler import Program, Value, adam, constant, he_normal, ops, warmup_cosine, zeros


def build() -> Program:
    """The training run: 20 epochs of Adam over 1,198 images."""
    program = Program("digits_cnn", seed=2)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16
    label = program.input("label", "int64", ("batch",))

    x = ops.cast(image, dtype="float32") / 16.0
    x = convolution(program, "conv1", x, channels=16)
    x = convolution(program, "conv2", x, channels=32)
    x = ops.max_pool2d(x, window=(2, 2), stride=(2, 2))
    x = convolution(program, "conv3", x, channels=64)
    x = ops.dropout(ops.reshape(x, shape=("batch", -1)), rate=0.5)
    w = program.parameter("output.w", (4 * 4 * 64, 10), he_normal())
    b = program.parameter("output.b", (10,), zeros())
    logits = x @ w + b

    loss = ops.softmax_cross_entropy(logits, label)
    program.minimize(loss, adam(rate=warmup_cosine(3e-3)))
    program.metrics(accuracy=ops.accuracy(logits, label))
    program.outputs(probabilities=ops.softmax(logits))

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True)
    program.run(epochs=20, split="train", evaluate="test")
    return program


def convolution(program: Program, name: str, x: Value, *, channels: int) -> Value:
    """A 3 x 3 convolution that keeps height and width, batch normalisation, relu."""
    w = program.parameter(f"{name}.w", (3, 3, int(x.shape[-1]), channels), he_normal())
    scale = program.parameter(f"{name}.scale", (channels,), constant(1.0))
    bias = program.parameter(f"{name}.bias", (channels,), zeros())
    mean = program.buffer(f"{name}.mean", (channels,), zeros())
    variance = program.buffer(f"{name}.variance", (channels,), constant(1.0))

    y = ops.conv2d(x, w, padding=(1, 1, 1, 1))
    y, new_mean, new_variance, *_ = ops.batch_norm(y, scale, bias, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    return ops.relu(y)


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"))
