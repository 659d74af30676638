"""Whole training steps beside PyTorch and JAX: float32, fresh rows each step, the loss read each step.

    python benchmarks/against_peers.py [--threads 1,2] [--python PATH] [--rounds N] [SUBJECT ...]

Every contender is a process of its own; they take turns, and what is printed are medians of their turns. Losses after
the same number of steps have to agree. The others need `pip install torch==2.13.0 jax==0.10.2`; `--python` names the
interpreter of another environment that has them.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from subjects import SUBJECTS

PEERS = ("torch", "torch.compile", "jax")
FIRST = 10
"""Steps that are made first: contenders compile, and their losses are compared after them."""


class Contender:
    """A process that makes steps when it is asked."""

    def __init__(self, python, name, subject, threads):
        """Start it, and let it make its first steps."""
        command = [python, str(Path(__file__).parent / "peers" / "contender.py"), name, subject, str(threads)]
        self.name, self.seconds = name, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        _, self.loss, _ = self.ask(FIRST)

    def ask(self, steps):
        """Seconds, the last loss, bytes."""
        print(steps, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with code {self.process.wait()}")
        return [float(word) for word in line.split()]

    def turn(self, seconds):
        """Steps for about so long."""
        if not self.seconds:
            self.ask(20)
            self.seconds.append(self.ask(20)[0] / 20)
        count = max(int(seconds / self.seconds[-1] / 64), 1) * 64
        took, _, self.bytes = self.ask(count)
        self.seconds.append(took / count)


def measured(options, name, threads):
    """Median seconds of a step, by contender."""
    own = [(sys.executable, n) for n in (("prograd", "reference") if options.reference else ("prograd",))]
    contenders = [Contender(python, n, name, threads) for python, n in own]
    contenders += [Contender(options.python, peer, name, threads) for peer in options.peers]
    losses = {c.name: c.loss for c in contenders}
    if max(losses.values()) > min(losses.values()) * 1.001:
        raise SystemExit(f"{name}: the losses differ after {FIRST} steps: {losses}")
    for _ in range(options.rounds):
        for contender in contenders:
            contender.turn(options.seconds)
    for contender in contenders:
        contender.process.stdin.close()
        contender.process.wait()
    return {c.name: (median(c.seconds[1:]), c.bytes) for c in contenders}


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", help="a part of their names; all unless given")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS))
    parser.add_argument("--reference", action="store_true", help="the reference engine too")
    options = parser.parse_args()
    print(f"{'':30} threads  {'us of a step':>12}  MiB   times faster than")
    for name, subject in SUBJECTS.items():
        if options.subjects and not any(part in name for part in options.subjects):
            continue
        for threads in map(int, options.threads.split(",")):
            found = measured(options, name, threads)
            print(f"{name:30} {threads:7}  {row(found, subject.target[0] if threads == 2 else None)}", flush=True)


def row(found, target):
    """The words of a row: what it took us, how much memory, and how many times faster that is than each peer."""
    seconds, size = found.pop("prograd")
    ratios = "  ".join(f"{peer} {other / seconds:.2f}" for peer, (other, _) in found.items())
    least = min((nbytes for _, nbytes in found.values()), default=0) / 2**20
    wanted = f"; target {target}" if target else ""
    return f"{seconds * 1e6:12.1f}  {size / 2**20:4.0f}  {ratios}; leanest {least:.0f} MiB{wanted}"


if __name__ == "__main__":
    main()
