"""A scheduler of reviews: 17 numbers of a model of memory, fitted to the reviews of one person.

    python examples/fsrs.py              builds examples/fsrs.pb
    runtime execute examples/fsrs.pb     fits them, evaluating on cards that it has not seen

The model is FSRS-4 (J. Ye, "Free Spaced Repetition Scheduler", open-spaced-repetition). A card has a stability, the
days until the chance to recall it falls to 0.9, and a difficulty from 1 to 10. Each review changes both. A scan goes
through the reviews of 32 cards at once, and the loss is the log loss of the chance to recall before each review.
`compiler build examples/fsrs.pb --target wasm32 -o site/` fits it in a browser, with the bits of
`--engine native.sse2`.
"""

from pathlib import Path

from prograd import Program, Value, adam, ops, warmup_cosine, zeros

LENGTH = 12  # reviews of a card at most; a rating of 0 is none

DEFAULTS = [0.4, 0.6, 2.4, 5.8, 4.93, 0.94, 0.86, 0.01, 1.49, 0.14, 0.94, 2.18, 0.05, 0.34, 1.26, 0.29, 2.61]
"""The numbers from which a fit begins: those of FSRS-4."""


def build() -> Program:
    """Return the training run: 8 epochs of Adam over 1,600 cards."""
    program = Program("fsrs", seed=1)
    rating = ops.cast(program.input("rating", "uint8", ("batch", LENGTH)), dtype="float32")
    days = program.input("days", "float32", ("batch", LENGTH))

    change = program.parameter("change", (len(DEFAULTS),), zeros())  # every number of the model stays positive
    w = [number * ops.exp(change[i]) for i, number in enumerate(DEFAULTS)]
    recall = chances(w, ops.transpose(rating), ops.transpose(days))

    passed, counts = ops.transpose(rating)[1:] > 1.5, ops.transpose(rating)[1:] > 0.5
    surprise = 0.0 - ops.log(ops.where(passed, recall, 1.0 - recall))
    total = ops.sum(ops.where(counts, surprise, surprise * 0.0))
    reviews = ops.sum(ops.cast(counts, dtype="float32"))
    program.minimize(total / reviews, adam(rate=warmup_cosine(0.03)))
    program.outputs(w=ops.stack(*w), recall=ops.transpose(recall))

    program.data("reviews.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=8, evaluate="test")
    return program


def chances(w: list[Value], rating: Value, days: Value) -> Value:
    """Return the chances to recall before each review but the first, [LENGTH - 1, batch]."""

    def step(card: tuple[Value, Value], review: tuple[Value, Value]) -> tuple[tuple[Value, Value], Value]:
        (stability, difficulty), (grade, waited) = card, review
        recall = 1.0 / (1.0 + waited / (9.0 * stability))
        difficulty = between(w[7] * w[4] + (1.0 - w[7]) * (difficulty - w[6] * (grade - 3.0)), 1.0, 10.0)
        grown = ops.exp(w[8]) * (11.0 - difficulty) * power(stability, 0.0 - w[9])
        grown = grown * (ops.exp((1.0 - recall) * w[10]) - 1.0)
        grown = grown * ops.where(grade < 2.5, w[15], 1.0) * ops.where(grade > 3.5, w[16], 1.0)
        lost = w[11] * power(difficulty, 0.0 - w[12]) * (power(stability + 1.0, w[13]) - 1.0)
        lost = lost * ops.exp((1.0 - recall) * w[14])
        stability = between(ops.where(grade > 1.5, stability * (1.0 + grown), lost), 0.1, 36500.0)
        return (stability, difficulty), between(recall, 1e-4, 1.0 - 1e-4)

    first = rating[0]
    stability = ops.gather(ops.stack(*w[:4]), ops.cast(first, dtype="int64") - 1)
    return ops.scan(step, (stability, w[4] - (first - 3.0) * w[5]), (rating[1:], days[1:]))[1]


def between(x: Value, low: float, high: float) -> Value:
    """Return numbers within two bounds."""
    return ops.minimum(ops.maximum(x, low), high)


def power(x: Value, exponent: Value) -> Value:
    """Return positive numbers to a power."""
    return ops.exp(ops.log(x) * exponent)


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"), force=True)
