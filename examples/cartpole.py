"""A pole on a cart, balanced by soft actor-critic (Haarnoja et al., 2018) for two actions (Christodoulou, 2019).

    python examples/cartpole.py     # learns for 40,000 steps of the world, and plays 100 times

Each step of the world is followed by a step of training on 64 steps of the past. The actor chooses actions, and gains
`TEMPERATURE` for each unit of entropy. Two critics foretell what an action earns; of their averages, which follow them
slowly, the smaller value counts. The world is that of Barto, Sutton and Anderson (1983).
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from prograd import Program, Run, Value, adam, ops, zeros

DISCOUNT, REWARD, TEMPERATURE = 0.99, 0.1, 0.01
BATCH, HIDDEN, FIRST, LIMIT = 64, 64, 500, 500

Stepper = Callable[..., Any]


class CartPole:
    """The world: position and speed of the cart, angle and turn of the pole."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def reset(self) -> np.ndarray:
        """Return the state at the start of a game."""
        self.state, self.steps = self.rng.uniform(-0.05, 0.05, 4), 0
        return self.state.astype("float32")

    def step(self, action: int) -> tuple[np.ndarray, bool]:
        """Push the cart to the right if `action` is not 0; return the state 20 ms later, and True if the pole fell."""
        _, speed, angle, turn = self.state.tolist()
        sine, cosine = math.sin(angle), math.cos(angle)
        push = ((10.0 if action else -10.0) + 0.05 * turn**2 * sine) / 1.1
        swing = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        self.state = self.state + 0.02 * np.array((speed, push - 0.05 * swing * cosine / 1.1, turn, swing))
        self.steps += 1
        return self.state.astype("float32"), abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095


def build() -> Program:
    """Return a program whose step trains critics and actor, and whose prediction is the chance of the second action."""
    program = Program("cartpole", seed=1)
    state, later = (program.input(name, "float32", ("batch", 4)) for name in ("state", "later"))
    action = program.input("action", "int64", ("batch",))
    goes_on = program.input("goes_on", "float32", ("batch",))
    actor, *critics = (weights(program, name) for name in ("actor", "critic1", "critic2"))
    slow = [program.average(0.95, critic, entries=()) for critic in critics]

    chances, logarithms = policy(actor, later)
    worth = ops.minimum(network(slow[0], later), network(slow[1], later)) - TEMPERATURE * logarithms
    earned = ops.stop_gradient(REWARD + DISCOUNT * goes_on * ops.sum(chances * worth, axis=1))
    values = [network(critic, state) for critic in critics]
    errors = [ops.where(action > 0, value[:, 1], value[:, 0]) - earned for value in values]
    program.minimize(ops.mean(errors[0] ** 2 + errors[1] ** 2), adam(1e-3), critics[0] + critics[1], name="critics")

    chances, logarithms = policy(actor, state)
    regret = TEMPERATURE * logarithms - ops.stop_gradient(ops.minimum(values[0], values[1]))
    program.minimize(ops.mean(ops.sum(chances * regret, axis=1)), adam(1e-3), actor, name="actor")
    program.outputs(chance=chances[:, 1])
    return program


def weights(program: Program, name: str) -> list[Value]:
    """Return the weights and biases of a network by turns."""
    made: list[Value] = []
    for i, shape in enumerate(pairwise((4, HIDDEN, HIDDEN, 2))):
        made += [program.parameter(f"{name}.w{i}", shape), program.parameter(f"{name}.b{i}", shape[1:], zeros())]
    return made


def network(weights: list[Value], x: Value) -> Value:
    """Return two numbers for each row of x."""
    w0, b0, w1, b1, w2, b2 = weights
    return ops.relu(ops.relu(x @ w0 + b0) @ w1 + b1) @ w2 + b2


def policy(actor: list[Value], x: Value) -> tuple[Value, Value]:
    """Return the chances of both actions, and their logarithms."""
    logarithms = ops.log_softmax(network(actor, x))
    return ops.exp(logarithms), logarithms


def learn(act: Stepper, train: Stepper, steps: int, seed: int = 2) -> list[int]:
    """Play and train for a number of steps of the world, and return the lengths of the games."""
    world, rng = CartPole(seed), np.random.default_rng(seed + 1)
    lengths: list[int] = []
    states, laters = np.empty((2, steps, 4), "float32")
    actions, goes_on = np.empty(steps, "int64"), np.empty(steps, "float32")
    state = world.reset()
    for step in range(steps):
        action = actions[step] = rng.random() < (act(state)[0] if step > FIRST else 0.5)
        states[step], (state, falls) = state, world.step(action)
        laters[step], goes_on[step] = state, not falls
        if falls or world.steps == LIMIT:
            lengths.append(world.steps)
            state = world.reset()
        if step > FIRST:
            rows = rng.integers(0, step + 1, BATCH)
            train(states[rows], laters[rows], actions[rows], goes_on[rows])
    return lengths


def play(act: Stepper, games: int, seed: int = 4) -> list[int]:
    """Take the likelier action, and return the lengths of games."""
    world = CartPole(seed)
    lengths: list[int] = []
    for _ in range(games):
        state, falls = world.reset(), False
        while not falls and world.steps < LIMIT:
            state, falls = world.step(act(state)[0] > 0.5)
        lengths.append(world.steps)
    return lengths


if __name__ == "__main__":
    run = Run(build().compile(batch=(1, BATCH)), threads=1)
    act, train = run.stepper("predict", fetch="chance"), run.stepper("train", fetch="critics")
    with train, act:
        learned = learn(act, train, 40_000)
        print(f"games of training {len(learned)}, the last 20 have {np.mean(learned[-20:]):.1f} steps", end="; ")
        print(f"100 games that follow have {np.mean(play(act, 100)):.1f}")
