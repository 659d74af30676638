"""Training quality with mixed precision: accuracies and losses beside those of float32.

    python benchmarks/peers/quality.py [--steps 1000] [--seeds 5] [--engine native]

`digits_cnn` is trained to its end with several seeds; the table has mean accuracies on the test rows. `characters` and
the transformer of `against_peers.py` make a number of steps; the table has the mean loss of the last 50.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import characters
import digits_cnn
from in_prograd import program as peer_program
from subjects import SUBJECTS, initial, rows

import runtime

EXAMPLES = Path(__file__).parents[2] / "examples"

MIXED = (None, "bfloat16")
LAST = 50
"""Steps at the end whose losses are averaged."""


def accuracy(seed, mixed, engine):
    """Return the accuracy of `digits_cnn` on the test rows after its last epoch."""
    program = digits_cnn.build()
    program.seed = seed
    run = runtime.Run(program.compile(batch=32, mixed=mixed), engine=engine, folder=EXAMPLES)
    return run.train(progress=False).metrics["evaluate.accuracy"]


def last_loss(compiled, feeds, state, steps, engine):
    """Return the mean loss of the last steps, where each step reads the next rows of `feeds`."""
    run = runtime.Run(compiled, engine=engine)
    for name, value in state.items():
        run.state[name] = value
    losses = [float(run.step(feeds(i))["loss"]) for i in range(steps)]
    return float(np.mean(losses[-LAST:]))


def characters_loss(mixed, steps, engine):
    """Return the loss of `characters`."""
    from safetensors.numpy import load_file

    text = load_file(EXAMPLES / "alice.safetensors")["text"]
    return last_loss(
        characters.build().compile(batch=8, mixed=mixed),
        lambda i: {"text": text[np.arange(8 * i, 8 * i + 8) % len(text)]},
        {"total_steps": steps},
        steps,
        engine,
    )


def transformer_loss(mixed, steps, engine):
    """Return the loss of the transformer of `against_peers.py`."""
    subject = SUBJECTS["transformer, adam, 8"]
    x, y = rows(subject)

    def feeds(i):
        part = np.arange(subject.batch * i, subject.batch * (i + 1)) % len(x)
        return {"x": x[part], "y": y[part]}

    compiled = peer_program(subject).compile(batch=subject.batch, mixed=mixed)
    return last_loss(compiled, feeds, initial(subject), steps, engine)


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--engine", default="native")
    options = parser.parse_args()
    print(f"{'':28} {'float32':>9} {'bfloat16':>9}  difference")
    single, half = (
        np.mean([accuracy(seed, mixed, options.engine) for seed in range(1, options.seeds + 1)]) for mixed in MIXED
    )
    print(f"{'digits_cnn, accuracy':28} {single:9.4f} {half:9.4f}  {half - single:+.2%}", flush=True)
    for name, loss in (("characters", characters_loss), ("transformer", transformer_loss)):
        single, half = (loss(mixed, options.steps, options.engine) for mixed in MIXED)
        print(f"{f'{name}, {options.steps} steps':28} {single:9.4f} {half:9.4f}  {half / single - 1:+.2%}", flush=True)


if __name__ == "__main__":
    main()
