"""A small convolutional network on 8 x 8 handwritten digits: the program that the README runs.

    python examples/digits_cnn.py              builds examples/digits_cnn.pb
    runtime execute examples/digits_cnn.pb     trains it, evaluating on the rows with index mod 3 = 2
"""

from pathlib import Path

from compiler import Program, Value, adam, he_normal, ops, warmup_cosine, zeros


def build() -> Program:
    """The training run: 12 epochs of Adam over 1,198 images."""
    program = Program("digits_cnn", seed=1)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16
    label = program.input("label", "int64", ("batch",))

    x = ops.cast(image, dtype="float32") / 16.0
    x = convolution(program, "conv1", x, channels=16)
    x = convolution(program, "conv2", x, channels=32)
    x = ops.max_pool2d(x, window=(2, 2), stride=(2, 2))
    x = ops.reshape(x, shape=("batch", -1))
    x = ops.dropout(x, rate=0.3)
    x = ops.relu(dense(program, "hidden", x, units=64))
    logits = dense(program, "output", x, units=10)

    loss = ops.softmax_cross_entropy(logits, label)
    program.minimize(loss, adam(rate=warmup_cosine(3e-3)))
    program.metrics(accuracy=ops.accuracy(logits, label))
    program.outputs(probabilities=ops.softmax(logits))

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True)
    program.run(epochs=12, split="train", evaluate="test")
    return program


def convolution(program: Program, name: str, x: Value, *, channels: int) -> Value:
    """A 3 x 3 convolution that keeps height and width, with bias and relu."""
    w = program.parameter(f"{name}.w", (3, 3, int(x.shape[-1]), channels), he_normal())
    b = program.parameter(f"{name}.b", (channels,), zeros())
    return ops.relu(ops.conv2d(x, w, padding=(1, 1, 1, 1)) + b)


def dense(program: Program, name: str, x: Value, *, units: int) -> Value:
    """A fully connected layer."""
    w = program.parameter(f"{name}.w", (int(x.shape[-1]), units), he_normal())
    b = program.parameter(f"{name}.b", (units,), zeros())
    return x @ w + b


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"))
