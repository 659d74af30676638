"""Whole training steps of imported modules beside eager PyTorch: float32, fresh rows each step, two threads.

    python benchmarks/peers/from_pytorch.py [--threads N] [--rounds N] [--seconds S] [NETWORK ...]

Each contender is a process of its own, and they take turns: prograd runs the imported program without PyTorch,
PyTorch runs the module as it is and, for networks of convolutions, with channels last. `by hand` is the same network
written with `prograd.layers`, where there is one. EfficientNet's step is planned for a budget of 170 MiB. Times are
medians of the turns; losses after the first steps have to agree, except by hand, where weights differ. `peak` is the
largest resident memory of the process, and `grown` is the part of it above the memory after the imports. It needs
`pip install -e ".[native,frameworks]"`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

FOLDER = Path(__file__).parent
FIRST = 3
"""Steps that are made first: contenders compile, and their losses are compared after them."""

TOLERANCE = 1e-3
"""Largest relative difference of the losses after the first steps."""


def main() -> None:
    """Measure the networks, and print a row for each contender."""
    sys.path.insert(0, str(FOLDER))
    from imported import NETWORKS, write

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    parser.add_argument("--contender", nargs=3, metavar=("NAME", "NETWORK", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("networks", nargs="*", choices=[*NETWORKS, []])
    options = parser.parse_args()
    if options.contender:
        return _answer(*options.contender, options.threads)
    print("| network, batch | contender | ms | times PyTorch's speed | peak, MB | grown, MB |\n" + "| --- " * 6 + "|")
    for name in options.networks or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            files = write(name, Path(folder))
            _measure(name, files, options)


def _measure(name: str, files: dict[str, str], options: argparse.Namespace) -> None:
    from imported import NETWORKS

    kinds = [*files, "torch", *(["torch channels-last"] if NETWORKS[name].is_convolutional else [])]
    contenders = {kind: _Contender(kind, name, files.get(kind, ""), options) for kind in kinds}
    losses = {kind: contender.loss for kind, contender in contenders.items() if kind != "by hand"}  # of other weights
    if max(losses.values()) - min(losses.values()) > TOLERANCE * abs(losses["torch"]):
        print(f"{name}: the losses differ: {losses}", file=sys.stderr)
    for contender in contenders.values():
        contender.take(options.seconds)  # a turn that counts for nothing, and tells how many steps the others have
        contender.times.clear()
    for _ in range(options.rounds):
        for contender in contenders.values():
            contender.take(options.seconds)
    best = min(median(c.times) for kind, c in contenders.items() if kind.startswith("torch"))
    for kind, contender in contenders.items():
        time = median(contender.times)
        told = f"{name}, {NETWORKS[name].batch}", kind, f"{time * 1e3:.1f}", f"{best / time:.2f}"
        print(f"| {' | '.join(told)} | {contender.peak / 1e6:.0f} | {contender.grown / 1e6:.0f} |", flush=True)
        contender.process.stdin.close()  # type: ignore[union-attr]
        contender.process.wait()


class _Contender:
    """A process that makes steps when it is asked."""

    def __init__(self, kind: str, name: str, file: str, options: argparse.Namespace) -> None:
        command = [sys.executable, __file__, "--threads", str(options.threads), "--contender", kind, name, file]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.times: list[float] = []
        self.per_step = self.loss = self.peak = self.grown = 0.0
        self._ask(FIRST)

    def take(self, seconds: float) -> None:
        """Make steps for about these seconds, and keep the time of one."""
        self._ask(max(1, round(seconds / self.per_step)))
        self.times.append(self.per_step)

    def _ask(self, steps: int) -> None:
        print(steps, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise SystemExit(f"a contender ended with code {self.process.wait()}")
        seconds, self.loss, self.peak, self.grown = map(float, line.split())
        self.per_step = seconds / steps


def _answer(kind: str, name: str, file: str, threads: int) -> None:
    """Read numbers of steps, make them, and answer with seconds, the last loss and bytes."""
    from imported import in_prograd, in_torch, peak

    imported, step = (in_torch if kind.startswith("torch") else in_prograd)(kind, name, file, threads)
    for line in sys.stdin:
        start = perf_counter()
        loss: Any = None
        for _ in range(int(line)):
            loss = step()
        seconds = perf_counter() - start
        print(seconds, float(loss), peak(), peak() - imported, flush=True)


if __name__ == "__main__":
    main()
