"""Losses of imported networks with mixed precision beside PyTorch's autocast(bfloat16), step by step.

    python benchmarks/peers/autocast.py [--steps 500] [--engine native]

Three modules are imported by `prograd.from_torch` and trained on equal rows by SGD. The table has the mean loss of the
last 50 steps: of PyTorch in float32, of PyTorch under autocast, and of prograd with `mixed="bfloat16"`.
"""

import argparse
import copy

import numpy as np
import torch

import prograd
import runtime

ROWS, CLASSES, LAST, RATE = 32, 10, 50, 0.1

PATTERN = 0.15
"""Size of the pattern of a class beside noise of 1: the losses of the last steps are neither near 0 nor near those of
chance.
"""


def perceptron():
    """Return an MLP with layer norms, and the shape of a row."""
    t = torch.nn
    layers = [t.Linear(64, 128), t.LayerNorm(128), t.GELU(), t.Linear(128, 128), t.ReLU(), t.Linear(128, CLASSES)]
    return t.Sequential(*layers), (64,)


def convolutions():
    """Return a small network of convolutions with batch norms, and the shape of a row."""
    t = torch.nn
    block = [t.Conv2d(16, 32, 3, 2, 1, bias=False), t.BatchNorm2d(32), t.ReLU()]
    layers = [t.Conv2d(3, 16, 3, 1, 1, bias=False), t.BatchNorm2d(16), t.ReLU(), *block]
    return t.Sequential(*layers, t.AdaptiveAvgPool2d(1), t.Flatten(), t.Linear(32, CLASSES)), (3, 16, 16)


class Transformer(torch.nn.Module):
    """Two encoder layers over a short sequence of vectors, and a head over the mean of their results."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = torch.nn.ModuleList(copy.deepcopy(layer) for _ in range(2))
        self.head = torch.nn.Linear(32, CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


NETWORKS = {"perceptron": perceptron, "convolutions": convolutions, "transformer": lambda: (Transformer(), (12, 32))}


def rows(shape):
    """Return rows whose losses fall: classes are a linear function of vectors, or a pattern in images and sequences.

    The patterns repeat along the axes over which the networks take means.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2048, *shape), dtype="f4")
    if len(shape) > 1:
        y = rng.integers(0, CLASSES, len(x))
        patterns = rng.standard_normal((CLASSES, 3, 4, 4) if len(shape) == 3 else (CLASSES, 1, 32), dtype="f4")
        repeats = (1, 1, 4, 4) if len(shape) == 3 else (1, shape[0], 1)
        return x + PATTERN * np.tile(patterns, repeats)[y], y.astype("i8")
    y = (x.reshape(len(x), -1) @ rng.standard_normal((x[0].size, CLASSES), dtype="f4")).argmax(1)
    return x, y.astype("i8")


def in_torch(module, x, y, steps, rate, mixed):
    """Return the mean of the last losses in PyTorch."""
    module = copy.deepcopy(module).train()
    optimizer, losses = torch.optim.SGD(module.parameters(), rate), []
    for i in range(steps):
        part = slice(i * ROWS % len(x), i * ROWS % len(x) + ROWS)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            out = module(torch.from_numpy(x[part]))
        loss = torch.nn.functional.cross_entropy(out.float(), torch.from_numpy(y[part]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses[-LAST:]))


def in_prograd(module, x, y, steps, rate, engine):
    """Return the mean of the last losses of the imported program with mixed precision."""
    example = torch.from_numpy(x[:2])
    program = prograd.from_torch(copy.deepcopy(module).train(), inputs={"input": example}, batch="batch")
    label = program.input("label", "int64", ("batch",))
    program.minimize(prograd.ops.softmax_cross_entropy(program["output"], label), prograd.sgd(rate))
    run = runtime.Run(program.compile(batch=ROWS, mixed="bfloat16"), engine=engine)
    losses = []
    for i in range(steps):
        part = slice(i * ROWS % len(x), i * ROWS % len(x) + ROWS)
        losses.append(float(run.step({"input": x[part], "label": y[part]})["loss"]))
    return float(np.mean(losses[-LAST:]))


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--engine", default="native")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':14} {'float32':>9} {'autocast':>9} {'prograd':>9}  difference to autocast")
    for name, make in NETWORKS.items():
        torch.manual_seed(1)
        module, shape = make()
        x, y = rows(shape)
        single, autocast = (in_torch(module, x, y, options.steps, RATE, mixed) for mixed in (False, True))
        ours = in_prograd(module, x, y, options.steps, RATE, options.engine)
        print(f"{name:14} {single:9.4f} {autocast:9.4f} {ours:9.4f}  {abs(ours / autocast - 1):.2%}", flush=True)


if __name__ == "__main__":
    main()
