"""Steps in a loop of the caller's, beside PyTorch: python benchmarks/peers/own_loop.py [--rounds 7] [--without-torch].

A network 4-64-2 predicts for one row, and trains by Adam with 1 and 32 rows. Microseconds of a call, medians of rounds
in which all take turns, one thread: `run.step`, a stepper, a stepper inside `with`, and eager PyTorch.
"""

import argparse
from statistics import median
from time import perf_counter

import numpy as np

from prograd import Program, Run, adam, layers, ops

CALLS = 2000
"""Calls of one turn."""


def main():
    """Print a table of microseconds by call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--without-torch", action="store_true")
    options = parser.parse_args()
    run = made()
    ways = [("run.step", by_step), ("stepper", by_stepper), ("stepper inside with", by_kept)]
    ways += [] if options.without_torch else [("PyTorch, eager", by_torch)]
    columns = [name for name, _ in ways]
    print(f"{'microseconds of a call':28}" + "".join(f"{name:>22}" for name in columns))
    for entry, rows in (("predict", 1), ("train", 1), ("train", 32)):
        turns = [way(run, entry, rows) for _, way in ways]
        found = [[] for _ in turns]
        for _ in range(options.rounds):
            for turn, seconds in zip(turns, found, strict=True):
                seconds.append(turn())
        medians = "".join(f"{median(each) * 1e6:22.1f}" for each in found)
        print(f"{entry + f', {rows} rows':28}" + medians)


def made():
    program = Program("small", seed=1)
    x = program.input("x", "float32", ("batch", 4))
    label = program.input("label", "int64", ("batch",))
    scores = layers.dense(ops.tanh(layers.dense(x, "hidden", 64)), "output", 2)
    program.minimize(ops.softmax_cross_entropy(scores, label), adam(1e-9))  # gradients that fade become denormal
    program.outputs(scores=scores)
    return Run(program.compile(batch=(1, 32)), threads=1)


def arrays(entry, rows):
    rng = np.random.default_rng(0)
    x, label = rng.standard_normal((rows, 4)).astype(np.float32), rng.integers(0, 2, rows)
    return {"x": x} | ({"label": label} if entry == "train" else {})


def by_step(run, entry, rows):
    given = arrays(entry, rows)
    return lambda: timed(lambda: run.step(given, entry=entry))


def by_stepper(run, entry, rows):
    given, step = list(arrays(entry, rows).values()), run.stepper(entry)
    return lambda: timed(lambda: step(*given))


def by_kept(run, entry, rows):
    given, step = list(arrays(entry, rows).values()), run.stepper(entry)

    def turn():
        with step:
            return timed(lambda: step(*given))

    return turn


def by_torch(run, entry, rows):
    import torch
    from torch import nn

    torch.set_num_threads(1)
    network = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(network.parameters(), 1e-9)
    given = {name: torch.from_numpy(array) for name, array in arrays(entry, rows).items()}

    def predicted():
        with torch.inference_mode():
            network(given["x"]).numpy()

    def trained():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(given["x"]), given["label"])
        loss.backward()
        optimizer.step()
        loss.item()

    return lambda: timed(predicted if entry == "predict" else trained)


def timed(call):
    """Return the seconds of a call, the mean of many."""
    for _ in range(CALLS // 10):
        call()
    begun = perf_counter()
    for _ in range(CALLS):
        call()
    return (perf_counter() - begun) / CALLS


if __name__ == "__main__":
    main()
