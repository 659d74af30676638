"""A generative adversarial network (Goodfellow et al., 2014) that draws 8 x 8 digits: two losses, two optimizers.

    python examples/gan.py              builds examples/gan.pb
    runtime execute examples/gan.pb     trains both networks, evaluating on digits that neither has seen

`judge` is the loss of the discriminator, `forger` that of the generator. `distance` is the energy distance (Szekely and
Rizzo, 2013) between fakes and real digits: 0 if they have one distribution. The noise is counted, not drawn: it is a
function of the seed and the step, so that each run sees the same fakes.
"""

from itertools import pairwise
from pathlib import Path

from prograd import Program, Value, adam, ops, zeros

BATCH, NOISE, HIDDEN, PIXELS = 64, 16, 128, 64


def build() -> Program:
    """Return the training run: 80 epochs, a step of either network for each batch."""
    program = Program("gan", seed=1)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16
    real = ops.reshape(ops.cast(image, dtype="float32") / 8.0 - 1.0, shape=("batch", PIXELS))

    generator = layers(program, "generator", NOISE, PIXELS)
    discriminator = layers(program, "discriminator", PIXELS, 1)
    noise = ops.normal.on(program)(shape=("batch", NOISE))
    fake = ops.tanh(network(generator, noise))

    score_real, score_fake = network(discriminator, real), network(discriminator, fake)
    judged = ops.mean(ops.softplus(-score_real)) + ops.mean(ops.softplus(score_fake))
    fooled = ops.mean(ops.softplus(-score_fake))
    program.minimize(judged, adam(1e-3, beta1=0.5), discriminator, name="judge")
    program.minimize(fooled, adam(5e-4, beta1=0.5), generator, name="forger")
    program.average(0.995, generator)  # what draws outside training
    program.entry("evaluate", over="mean", distance=energy_distance(real, fake))
    program.outputs(image=ops.reshape(fake, shape=("batch", 8, 8)) * 8.0 + 8.0)

    test = slice(2, 2 + 3 * 9 * BATCH, 3)  # nine batches of the rows held out: one row alone is at no fair distance
    program.data("digits.safetensors", splits={"train": "train", "test": test}, shuffle=True, remainder="drop")
    program.training(epochs=80, split="train", evaluate="test", every=20)
    return program


def layers(program: Program, name: str, size_in: int, size_out: int) -> list[Value]:
    """Return the parameters of a network with two hidden layers: weights and biases by turns."""
    sizes = (size_in, HIDDEN, HIDDEN, size_out)
    parameters: list[Value] = []
    for i, shape in enumerate(pairwise(sizes)):
        parameters += [program.parameter(f"{name}.w{i}", shape), program.parameter(f"{name}.b{i}", shape[1:], zeros())]
    return parameters


def network(parameters: list[Value], x: Value) -> Value:
    """Return the network's output for each row of x."""
    w0, b0, w1, b1, w2, b2 = parameters
    x = ops.leaky_relu(x @ w0 + b0, alpha=0.2)
    x = ops.leaky_relu(x @ w1 + b1, alpha=0.2)
    return x @ w2 + b2


def energy_distance(x: Value, y: Value) -> Value:
    """Twice the mean distance of an x and a y, minus that of two x and that of two y."""
    within = mean_distance(x, x) + mean_distance(y, y)
    return 2.0 * mean_distance(x, y) - within * (BATCH / (BATCH - 1.0))  # a row is 0 apart from itself


def mean_distance(x: Value, y: Value) -> Value:
    """Over all pairs of rows."""
    return ops.mean(ops.norm(ops.unsqueeze(x, axis=1) - ops.unsqueeze(y, axis=0), axis=2))


if __name__ == "__main__":
    build().compile(batch=BATCH).save(Path(__file__).with_suffix(".pb"), force=True)
