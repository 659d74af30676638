"""The largest curvature of a loss while gradient descent runs: gradients of gradients, and a power iteration.

    python examples/sharpness.py              builds examples/sharpness.pb
    runtime execute examples/sharpness.pb     descends, and reports the sharpness

Each step is one of plain gradient descent on all 1,198 images, and one of the power iteration for the largest
eigenvalue of the Hessian H: a buffer beside each parameter keeps its part of a direction u; the gradient of
<gradient, u> is Hu, and that at length 1 is the next u. As Cohen et al., 2021, found, the sharpness rises to about
2 / rate, where descent on a parabola begins to diverge, and stays there while the loss falls, if not at each step.
"""

from collections.abc import Iterable
from functools import reduce
from pathlib import Path

from prograd import Program, Value, gradients, normal, ops, sgd, zeros

RATE, HIDDEN = 0.8, 32


def build() -> Program:
    """Return the training run: 800 steps with all images at once."""
    program = Program("sharpness", seed=1)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16
    label = program.input("label", "int64", ("batch",))

    x = ops.reshape(ops.cast(image, dtype="float32") / 16.0, shape=("batch", 64))
    w1 = program.parameter("hidden.w", (64, HIDDEN))
    b1 = program.parameter("hidden.b", (HIDDEN,), zeros())
    w2 = program.parameter("output.w", (HIDDEN, 10))
    b2 = program.parameter("output.b", (10,), zeros())
    logits = ops.tanh(x @ w1 + b1) @ w2 + b2
    loss = ops.squared_error(logits, ops.one_hot(label, depth=10, dtype="float32"))

    pairs = program.minimize(loss, sgd(RATE))
    program.fetch("sharpness", largest_curvature(program, pairs), over="last")
    program.metrics(accuracy=ops.accuracy(logits, label))

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=False, remainder="drop")
    program.training(epochs=800, split="train", evaluate="test", every=100)
    return program


def largest_curvature(program: Program, pairs: list[tuple[Value, Value]]) -> Value:
    """Return the estimate <u, Hu> after one more step of the power iteration, u <- Hu / |Hu|."""
    parameters = [w for w, _ in pairs]
    us = [program.buffer(f"{w.name}.u", w.type.static_shape, normal()) for w in parameters]
    along = total(dw * u for (_, dw), u in zip(pairs, us, strict=True))
    hus = [hu for hu in gradients(along, parameters) if hu is not None]
    length = ops.sqrt(total(hu * hu for hu in hus))
    for u, hu in zip(us, hus, strict=True):
        program.update(u, hu / length)
    return total(u * hu for u, hu in zip(us, hus, strict=True)) / total(u * u for u in us)


def total(parts: Iterable[Value]) -> Value:
    """Return the sum of all elements of all tensors."""
    return reduce(ops.add, map(ops.sum, parts))


if __name__ == "__main__":
    build().compile(batch=1198).save(Path(__file__).with_suffix(".pb"), force=True)
