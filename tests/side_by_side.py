"""Many small predictions from several threads while one trains: each is of the states between two steps, to the bit.

    python tests/side_by_side.py                          # 10,000 predictions from 8 threads
    python tests/side_by_side.py --count 100000 --threads 16 --engine reference

A run alone gives the states after every step. Its states are put back one after the other, and every input is predicted
with each of them. Then the same run trains in one thread, over and over until the predictions of the others are made,
and each of these has to be one that was predicted before, of a step between those that were done before and after it.
Training and predictions pace each other, so that there are predictions at every step however busy the machine is. In
the end what was trained has the bits of the run alone. Printed is what a prediction takes of the processor, beside one
thread that predicts alone.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
from typing import Any, NamedTuple

import numpy as np

import runtime
from compiler import Program, adam, ops, zeros
from compiler.build.compiled import Compiled
from prograd import layers

BATCH, STEPS, WIDTH, INPUTS = 8, 40, 16, 3
LONG = 60  # seconds after which one of them has gone astray


class Found(NamedTuple):
    """Counts: predictions, concurrent steps, steps whose states were predicted, and seconds."""

    predictions: int
    steps: int
    seen: int
    seconds: float
    alone: float


def compiled() -> Compiled:
    """A small network whose predictions say of which step they are."""
    program = Program("side by side", seed=3)
    x, y = program.input("x", "float32", ("n", WIDTH)), program.input("y", "int64", ("n",))
    hidden = ops.dropout(ops.relu(layers.dense(x, "hidden", WIDTH)), ratio=0.2)
    logits = layers.dense(hidden, "output", 4)
    program.minimize(ops.softmax_cross_entropy(logits, y), adam(1e-2))
    done = program.buffer("done", (), zeros(), dtype="int64")
    program.update(done, done + 1)
    program.outputs(probabilities=ops.softmax(logits), done=done)
    return program.compile(n=BATCH)


def rows() -> dict[str, Any]:
    """Return the events of one epoch."""
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(BATCH * STEPS, WIDTH)).astype(np.float32), "y": rng.integers(0, 4, BATCH * STEPS)}


def look(count: int, threads: int, engine: str | None = None) -> Found:
    """Predict `count` times from `threads` threads while another one trains. Raise AssertionError for a fault."""
    program, data = compiled(), rows()
    inputs = [data["x"][i : i + 1 + 3 * i] for i in range(INPUTS)]
    alone = runtime.Run(program, engine=engine)
    wanted = [[alone.predict(x) for x in inputs]]
    for event in alone.events(data=data):
        if isinstance(event, runtime.StepEnd):
            wanted.append([alone.predict(x) for x in inputs])
    end = alone.states.sha256()
    begin = time.process_time()
    for i in range(count // 10):
        alone.predict(inputs[i % INPUTS])
    each = (time.process_time() - begin) / max(1, count // 10)
    wrong: list[str] = []
    left = [count // threads] * threads
    seen: set[int] = set()
    steps = trainings = 0
    spent = time.process_time()
    while any(left):
        run = runtime.Run(program, engine=engine)
        pace = Pace(threads)
        workers = [
            threading.Thread(target=_predict, args=(run, inputs, wanted, left, i, pace, seen, wrong))
            for i in range(threads)
        ]
        steps += _train(run, data, pace, workers)
        trainings += 1
        assert not wrong, wrong[0]
        assert run.states.sha256() == end, f"training {trainings} ended in other states than the run alone"
        run.close()
    spent = time.process_time() - spent
    return Found(count // threads * threads, steps, len(seen), spent, each)


def _train(run: runtime.Run, data: dict[str, Any], pace: Pace, workers: list[threading.Thread]) -> int:
    """Train beside the workers, to the end; how many steps."""
    steps = 0
    for worker in workers:
        worker.start()
    try:
        for event in run.events(data=data):
            if isinstance(event, runtime.StepEnd):
                steps += 1
                pace.moved()
    finally:
        pace.end()
        for worker in workers:
            worker.join()
    return steps


class Pace:
    """A training and the threads beside it, none of which leaves the others behind.

    A thread begins one prediction after each step, and the training goes on once all have. So each prediction runs
    beside the step that comes next, and is over before the one after that.
    """

    def __init__(self, threads: int) -> None:
        self._changed = threading.Condition()
        self._begun = [0] * threads
        self._moves = 0
        self._over = False

    def begins(self, me: int) -> bool:
        """Wait until this thread may begin a prediction; False if there is none to begin any more."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._over or self._begun[me] <= self._moves, LONG)
            self._begun[me] += 1
            self._changed.notify_all()
            return not self._over

    def leaves(self, me: int) -> None:
        """Nobody waits for this thread any more."""
        with self._changed:
            self._begun[me] = sys.maxsize
            self._changed.notify_all()

    def moved(self) -> None:
        """A step was made: wait until all threads that are still there have begun a prediction after it."""
        with self._changed:
            self._moves += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: min(self._begun) > self._moves, LONG)

    def end(self) -> None:
        """The training is over."""
        with self._changed:
            self._over = True
            self._changed.notify_all()


def _predict(
    run: runtime.Run,
    inputs: list[Any],
    wanted: list[list[Any]],
    left: list[int],
    me: int,
    pace: Pace,
    seen: set[int],
    wrong: list[str],
) -> None:
    """Predict until the training is over or enough was predicted."""
    try:
        while left[me] and not wrong and pace.begins(me):
            number = (me + left[me]) % INPUTS
            before = run.position.steps
            found = run.predict(inputs[number])
            after = run.position.steps
            done = int(found["done"])
            left[me] -= 1
            seen.add(done)
            if not before <= done <= after + 1:
                wrong.append(f"a prediction between the steps {before} and {after} is of step {done}")
            elif not np.array_equal(found["probabilities"], wanted[done][number]["probabilities"]):
                wrong.append(f"a prediction of step {done} is another than that of the run alone")
    except BaseException as error:
        wrong.append(f"{type(error).__name__}: {error}")
    finally:
        pace.leaves(me)


def main() -> None:
    """Look, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="of predictions")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--engine")
    options = parser.parse_args()
    logging.getLogger("prograd").setLevel(logging.ERROR)
    found = look(options.count, options.threads, options.engine)
    print(
        f"{found.predictions} predictions from {options.threads} threads, of {found.seen} different steps, while "
        f"{found.steps} steps were made: all right. {found.seconds / found.predictions * 1e6:.0f} µs of the processor "
        f"for each, with the training; {found.alone * 1e6:.0f} µs for each of one thread alone"
    )


if __name__ == "__main__":
    main()
