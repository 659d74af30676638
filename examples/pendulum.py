"""A neural differential equation (Chen et al., 2018): it learns how a pendulum accelerates from where it was.

    python examples/pendulum.py              builds examples/pendulum.pb
    runtime execute examples/pendulum.pb     trains it, evaluating on swings that it has not seen

A network of two layers is the right-hand side of y' = f(y), with y = (angle, speed). A scan integrates it in steps of
0.1 seconds by the method of Runge and Kutta, and the gradient of the distance from the measured path flows through all
of them. `error` is that distance, the root of the mean square over 2 seconds. The entry `swing` goes on for 10 seconds.
"""

from pathlib import Path

from prograd import Program, Value, adam, global_norm, layers, ops, warmup_cosine

TIMES, STEP = 21, 0.1  # measurements in a row, and seconds between them


def build() -> Program:
    """Return the training run: 80 epochs over 224 noisy swings of 2 seconds."""
    program = Program("pendulum", seed=1)
    path = program.input("path", "float32", ("batch", TIMES, 2))
    measured = ops.transpose(path, axis=(1, 0, 2))

    found = swing(program, measured[0], TIMES - 1)
    loss = ops.mean(ops.square(found - measured[1:]))
    program.minimize(loss, adam(rate=warmup_cosine(1e-2), clip=global_norm(1.0)))
    program.metrics(error=ops.sqrt(loss))

    start = program.input("start", "float32", ("batch", 2))
    program.entry("swing", path=ops.transpose(swing(program, start, 100), axis=(1, 0, 2)))

    program.data("pendulum.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=80, evaluate="test", every=20)
    return program


def swing(program: Program, start: Value, steps: int) -> Value:
    """Return the states [steps, batch, 2] after each step, from a state [batch, 2] on."""

    def step(y: Value, _: tuple[()]) -> tuple[Value, Value]:
        a = slope(program, y)
        b = slope(program, y + STEP / 2 * a)
        c = slope(program, y + STEP / 2 * b)
        d = slope(program, y + STEP * c)
        y = y + STEP / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    return ops.scan(step, start, length=steps)[1]


def slope(program: Program, y: Value) -> Value:
    """Return the learnt right-hand side of y' = f(y)."""
    with program.scope("slope", reuse=True):
        return layers.dense(ops.tanh(layers.dense(y, "hidden", 32)), "output", 2)


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"), force=True)
