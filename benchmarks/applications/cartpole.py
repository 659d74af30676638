"""The agent of docs/guide/own-loop.md beside the same in PyTorch: python benchmarks/applications/cartpole.py.

The page's loop runs with its own two functions, and with functions of eager PyTorch; steps of the world a second, one
thread. The worlds differ by what the agents learn, so rates are compared, not times.
"""

import argparse
import re
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter

PAGE = Path(__file__).parents[2] / "docs/guide/own-loop.md"


def main():
    """Print the rates of both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    pairs = [(rate(of_page), rate(of_torch)) for _ in range(rounds)]
    ours, theirs = (median(column) for column in zip(*pairs, strict=True))
    print(f"steps a second: prograd {ours:.0f}, PyTorch {theirs:.0f}, {ours / theirs:.1f} times")


def rate(functions):
    """Return the steps of the world a second."""
    program, world, loop = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    exec(
        program.replace("Run(program.compile(batch=(1, 1000)))", "Run(program.compile(batch=(1, 1000)), threads=1)"),
        names,
    )
    exec(world, names)
    counted, count = names["CartPole"].step, [0]

    def step(self, action):
        count[0] += 1
        return counted(self, action)

    names["CartPole"].step = step
    names |= functions()
    exec(loop.partition("world, rng")[0], names)
    begun = perf_counter()
    exec(loop.replace("assert", "assert True or"), names)
    return count[0] / (perf_counter() - begun)


def of_page():
    return {}


def of_torch():
    """Return the two functions in PyTorch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)

    class Act(ExitStack):
        def __call__(self, state):
            with torch.inference_mode():
                return torch.softmax(network(torch.from_numpy(state)), 0)[1:].numpy()

    class Learn(ExitStack):
        def __call__(self, states, moves, gains):
            optimizer.zero_grad()
            scores, moves = network(torch.from_numpy(states)), torch.from_numpy(moves)
            losses = nn.functional.cross_entropy(scores, moves, reduction="none")
            (torch.from_numpy(gains) * losses).mean().backward()
            optimizer.step()

    return {"act": Act(), "learn": Learn()}


if __name__ == "__main__":
    main()
