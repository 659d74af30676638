"""Least squares by gradient descent: how much ink the digits have, from their pixels.

    python examples/linear_regression.py              builds examples/linear_regression.pb
    runtime execute examples/linear_regression.pb     finds the weights: all pixels count the same

The target is made by ops in the program itself, so the answer is known: every weight is 1 and the bias is 0.
"""

from pathlib import Path

from compiler import Program, normal, ops, sgd, zeros


def build() -> Program:
    """The training run: full passes over the images with a constant rate."""
    program = Program("linear_regression", seed=3)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16

    x = ops.reshape(ops.cast(image, dtype="float64") / 16.0, shape=("batch", 64))
    ink = ops.stop_gradient(ops.sum(x, axes=(1,)))

    w = program.parameter("w", (64,), normal(0.0, 0.1), dtype="float64")
    b = program.parameter("b", (), zeros(), dtype="float64")
    prediction = ops.sum(x * w, axes=(1,)) + b
    loss = ops.squared_error(prediction, ink)

    program.minimize(loss, sgd(rate=0.02))
    program.metrics(largest_error=ops.max(ops.abs(prediction - ink)))
    program.outputs(ink=prediction)

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True)
    program.run(epochs=10, split="train", evaluate="test")
    return program


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"))
