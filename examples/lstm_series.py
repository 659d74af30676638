"""An LSTM forecasts a year of carbon dioxide in the air of Mauna Loa from the three years before it.

    python examples/lstm_series.py              builds examples/lstm_series.pb
    runtime execute examples/lstm_series.pb     trains it on 1958 to 1989, evaluating on forecasts of 1990 to 2001

`error` is the mean absolute error in ppm. Two forecasts that learn nothing stand beside it: `naive` repeats the last
month, `seasonal` repeats the last twelve months with what they rose above the twelve before.
"""

from pathlib import Path

from prograd import Program, adam, layers, normal, ops, warmup_cosine, zeros

BEFORE, AFTER, HIDDEN, SCALE = 36, 12, 32, 3.0


def build() -> Program:
    """Return the training run: 40 epochs over 335 months in which a forecast begins."""
    program = Program("lstm_series", seed=1)
    before = program.input("before", "float32", ("batch", BEFORE))  # ppm
    after = program.input("after", "float32", ("batch", AFTER))

    # The network sees differences from the last known month and forecasts them, so that the level does not matter.
    last = before[:, -1:]
    x = ops.reshape((before - last) / SCALE, shape=("batch", BEFORE, 1))
    _, h, _ = layers.lstm(x, "lstm", HIDDEN)
    w = program.parameter("output.w", (HIDDEN, AFTER), normal(0.0, 0.01))
    b = program.parameter("output.b", (AFTER,), zeros())
    forecast = last + SCALE * (h[0] @ w + b)

    loss = ops.squared_error(forecast, after)
    program.minimize(loss, adam(rate=warmup_cosine(2e-2)))
    rise = last - before[:, -13:-12]
    program.metrics(
        error=ops.absolute_error(forecast, after),
        naive=ops.absolute_error(ops.broadcast_to(last, shape=("batch", AFTER)), after),
        seasonal=ops.absolute_error(before[:, -12:] + rise, after),
    )
    program.outputs(forecast=forecast)

    program.data("co2.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=40, split="train", evaluate="test", every=10)
    return program


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"), force=True)
