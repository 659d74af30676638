"""Agents that balance a pole, beside the same in PyTorch: python benchmarks/applications/cartpole.py.

The loop of docs/guide/own-loop.md (REINFORCE) and that of examples/cartpole.py (soft actor-critic) run with their own
two functions, and with functions of eager PyTorch; steps of the world a second, one thread. The worlds differ by what
the agents learn, so rates are compared, not times. Where they are installed
(`pip install --no-deps stable-baselines3 gymnasium cloudpickle farama-notifications`), Stable-Baselines3 plays the
CartPole-v1 of Gymnasium too. It has no soft actor-critic for two actions, so its DQN does: one network in place of
three, otherwise with the same sizes and a step of training for each step of the world.
"""

import argparse
import re
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guide/own-loop.md"
STEPS = 4000


def main():
    """Print the rates of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print_rates("REINFORCE", rounds, {"prograd": lambda: rate(of_page), "PyTorch": lambda: rate(of_torch)})
    rivals = {"prograd": actor_critic, "PyTorch": actor_critic_of_torch}
    if find_spec("stable_baselines3"):
        rivals["DQN of Stable-Baselines3"] = dqn
    print_rates("soft actor-critic", rounds, rivals)


def print_rates(title, rounds, rivals):
    """Print the medians of rounds in turns."""
    found = [[measured() for measured in rivals.values()] for _ in range(rounds)]
    rates = dict(zip(rivals, map(median, zip(*found, strict=True)), strict=True))
    ours = rates["prograd"]
    others = "".join(f", {name} {rate:.0f} ({ours / rate:.1f} times)" for name, rate in rates.items() if rate != ours)
    print(f"{title}, steps a second: prograd {ours:.0f}{others}")


def actor_critic():
    """Return the steps of the world a second of the example."""
    import cartpole

    from prograd import Run

    run = Run(cartpole.build().compile(batch=(1, cartpole.BATCH)), threads=1)
    act, train = run.stepper("predict", fetch="chance"), run.stepper("train", fetch="critics")
    with train, act:
        return seconds_of(cartpole, act, train)


def seconds_of(cartpole, act, train):
    cartpole.learn(act, train, 600)  # compiles, and warms up
    begun = perf_counter()
    cartpole.learn(act, train, STEPS)
    return STEPS / (perf_counter() - begun)


def actor_critic_of_torch():
    """Return the same with functions of PyTorch."""
    import cartpole
    import torch
    from torch import nn
    from torch.nn.functional import log_softmax

    torch.set_num_threads(1)
    torch.manual_seed(1)

    def network():
        width = cartpole.HIDDEN
        return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    actor, *critics = network(), network(), network()
    slow = [network() for _ in critics]
    for each, critic in zip(slow, critics, strict=True):
        each.load_state_dict(critic.state_dict())
    of_critics = torch.optim.Adam([w for critic in critics for w in critic.parameters()], 1e-3)
    of_actor = torch.optim.Adam(actor.parameters(), 1e-3)

    def act(state):
        with torch.inference_mode():
            return torch.softmax(actor(torch.from_numpy(state)), 0)[1:].numpy()

    def train(*rows):
        state, later, action, goes_on = map(torch.from_numpy, rows)
        with torch.no_grad():
            logarithms = log_softmax(actor(later), 1)
            worth = torch.minimum(slow[0](later), slow[1](later)) - cartpole.TEMPERATURE * logarithms
            left = cartpole.DISCOUNT * goes_on * (logarithms.exp() * worth).sum(1)
            earned = cartpole.REWARD + left
        values = [critic(state) for critic in critics]
        loss = sum(((value.gather(1, action[:, None])[:, 0] - earned) ** 2).mean() for value in values)
        logarithms = log_softmax(actor(state), 1)
        regret = cartpole.TEMPERATURE * logarithms - torch.minimum(*values).detach()
        of_critics.zero_grad()
        loss.backward()
        of_actor.zero_grad()
        (logarithms.exp() * regret).sum(1).mean().backward()
        of_critics.step()
        of_actor.step()
        with torch.no_grad():
            for each, critic in zip(slow, critics, strict=True):
                torch._foreach_lerp_(list(each.parameters()), list(critic.parameters()), 0.05)
        return loss.item()

    return seconds_of(cartpole, act, train)


def dqn():
    """Return the steps of the world a second of Stable-Baselines3."""
    import cartpole
    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(1)
    size = cartpole.HIDDEN
    options = dict(policy_kwargs={"net_arch": [size, size]}, batch_size=cartpole.BATCH, learning_rate=1e-3)
    model = DQN(
        "MlpPolicy", "CartPole-v1", learning_starts=cartpole.FIRST, train_freq=1, gradient_steps=1, seed=1, **options
    )
    model.learn(600)
    begun = perf_counter()
    model.learn(STEPS, reset_num_timesteps=False)
    return STEPS / (perf_counter() - begun)


def rate(functions):
    """Return the steps of the world a second."""
    program, world, loop = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names = {"print": lambda *words: None}
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
    sys.path.insert(0, str(ROOT / "examples"))
    main()
