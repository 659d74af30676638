"""Least squares by gradient descent: how much ink the digits have, from their pixels.

    python examples/linear_regression.py              builds examples/linear_regression.pb
    runtime execute examples/linear_regression.pb     finds the weights

The target is made by ops in the program itself, so the answer is known: the bias is 0, and the weight of every
pixel that ever has ink is 1. The run keeps the best parameters and stops when ten evaluations in a row bring
nothing better.
"""

from pathlib import Path

from prograd import Program, momentum, normal, ops, zeros


def build() -> Program:
    """Return the training run.

    At most 100 passes over the 1,198 training images in float64, 32 at a time, with momentum and a constant rate;
    after each the parameters are evaluated on the 599 others.
    """
    program = Program("linear_regression", seed=3)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16

    x = ops.reshape(ops.cast(image, dtype="float64") / 16.0, shape=("batch", 64))
    ink = ops.stop_gradient(ops.sum(x, axis=1))

    w = program.parameter("w", (64,), normal(0.0, 0.1), dtype="float64")
    b = program.parameter("b", (), zeros(), dtype="float64")
    prediction = ops.sum(x * w, axis=1) + b
    loss = ops.squared_error(prediction, ink)

    program.minimize(loss, momentum(rate=0.01, momentum=0.9))
    program.metrics(largest_error=ops.max(ops.abs(prediction - ink)))
    program.outputs(ink=prediction)

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=100, split="train", evaluate="test", keep_best="loss", best="min", stop_after=10)
    return program


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"), force=True)
