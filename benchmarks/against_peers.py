"""Whole training steps beside PyTorch, JAX and TensorFlow: float32, fresh rows each step, the loss read each step.

    python benchmarks/against_peers.py [--threads 1,2] [--python [PEER=]PATH] [--rounds N] [--peers A,B] [SUBJECT ...]

Every contender is a process of its own; they take turns, and what is printed are medians of their turns. Losses after
the same number of steps have to agree. The others need `pip install torch==2.13.0 jax==0.10.2`, and TensorFlow, which
is measured where it is known to be fast, `pip install tensorflow-cpu==2.21.0`; `--python` names the interpreter of
another environment that has them, of all or of one peer.

`--instructions avx2` asks all of them to do without AVX-512: the figures of a machine with AVX2, but for its caches.

`--mixed bfloat16` compares mixed precision: all contenders in float32, and prograd, PyTorch by autocast and JAX and
TensorFlow by casts of the operands of products, in bfloat16. Their losses have to agree within 5 %.

    python benchmarks/against_peers.py --table [--rounds N] [SUBJECT ...]

prints one row for each subject: milliseconds of a step in float32 and with mixed precision, on two threads, beside the
fastest peer in either, and PyTorch's autocast.

    python benchmarks/against_peers.py --start [--threads 1,2] [SUBJECT ...]

prints instead what prograd takes to start: the arena beside the reference plan's, and the processor time of a process
with one step in it, without kept code and with it.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from started import started
from subjects import SUBJECTS

NARROW = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}
"""Environment variables that keep PyTorch, its numerical libraries and JAX from using AVX-512."""

TABLE = ("mlp", "lenet", "lstm", "gru", "transformer", "mobilenet", "resnet18", "gpt2")
"""Words for the subjects of the table of mixed precision if none are named."""

WARM_STEPS = 4
"""Steps before those that count, at least."""

SLOW_SECONDS = 1.0
"""Seconds of a step from which on one step is enough to warm up."""


class Contender:
    """A process that makes steps when it is asked."""

    is_slow = False

    def __init__(self, python, name, subject, threads, narrow=False, mixed=""):
        """Start it, and ask for its first steps; narrow ones have to do with AVX2, `mixed` is a dtype or nothing."""
        command = [python, str(Path(__file__).parent / "peers" / "contender.py"), name, subject, str(threads), mixed]
        self.name, self.seconds = name.partition(".avx2")[0] + f" {mixed}" * bool(mixed), []
        environment = os.environ | (NARROW if narrow else {})
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        took, self.loss, self.bytes = self.ask(SUBJECTS[subject].first_steps)
        self.is_slow = took > SUBJECTS[subject].first_steps * SLOW_SECONDS

    def ask(self, steps):
        """Seconds, the last loss, bytes."""
        print(steps, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with code {self.process.wait()}")
        return [float(word) for word in line.split()]

    def warm_up(self, seconds):
        """Steps of which nothing is kept but how long one takes."""
        took, _, _ = self.ask(1 if self.is_slow else WARM_STEPS)
        count = max(min(int(seconds / took * WARM_STEPS), 64), 1 if self.is_slow else WARM_STEPS)
        self.seconds.append(self.ask(count)[0] / count)

    def turn(self, seconds):
        """Steps for about so long."""
        count = max(int(seconds / self.seconds[-1]), 2)
        count = count // 64 * 64 or count  # prograd tells of 64 steps at once
        took, _, self.bytes = self.ask(count)
        self.seconds.append(took / count)

    def end(self):
        """Let it end."""
        self.process.stdin.close()
        self.process.wait()


def measured(options, name, threads):
    """Median seconds of a step and the most resident memory, by contender."""
    peers = [peer for peer in SUBJECTS[name].peers if not options.peers or peer in options.peers]
    narrow = options.instructions == "avx2"
    ours = ["prograd.avx2" if narrow else "prograd"] + ["reference"] * options.reference
    contenders = [Contender(sys.executable, each, name, threads, narrow) for each in ours]
    contenders += [Contender(interpreter(options, peer), peer, name, threads, narrow) for peer in peers]
    if options.mixed:
        contenders += [Contender(sys.executable, each, name, threads, narrow, options.mixed) for each in ours]
        contenders += [Contender(interpreter(options, p), p, name, threads, narrow, options.mixed) for p in peers]
    losses = {c.name: c.loss for c in contenders}
    if max(losses.values()) > min(losses.values()) * (1.05 if options.mixed else 1.001):
        raise SystemExit(f"{name}: the losses differ after the first steps: {losses}")
    take_turns(contenders, options.rounds, options.seconds)
    for contender in contenders:
        contender.end()
    return {c.name: (median(c.seconds[1:]), c.bytes) for c in contenders}


def take_turns(contenders, rounds, seconds):
    """Each has one turn a round."""
    for contender in contenders:
        contender.warm_up(seconds)
    for _ in range(rounds):
        for contender in contenders:
            contender.turn(seconds)


def interpreter(options, peer):
    """The one that has the packages of a peer."""
    family, found = peer.partition(".")[0], sys.executable
    for given in options.python:
        name, _, path = given.rpartition("=")
        if name in ("", family):
            found = path
    return found


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", help="a part of their names; all unless given")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--python", action="append", default=[], metavar="[PEER=]PATH", help="for all, or torch, jax …")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--peers", type=lambda text: text.split(","), help="all of each subject unless given")
    parser.add_argument("--reference", action="store_true", help="the reference engine too")
    parser.add_argument("--instructions", choices=["avx2"], help="of all contenders; the machine's best unless given")
    parser.add_argument(
        "--mixed", choices=["bfloat16"], default="", help="beside float32, all of them in this dtype too"
    )
    parser.add_argument("--table", action="store_true", help="float32 and mixed precision beside the fastest peers")
    parser.add_argument("--start", action="store_true", help="how programs start, without peers")
    options = parser.parse_args()
    if options.table:
        options.mixed = "bfloat16"
        print_table(options)
        return
    if options.start:
        print(f"{'':30} threads  arena KiB  plan KiB  cold s  warm s")
    else:
        print(f"{'':30} threads  {'us of a step':>12}   MiB  times faster than")
    for name, subject in SUBJECTS.items():
        if options.subjects and not any(part in name for part in options.subjects):
            continue
        for threads in map(int, options.threads.split(",")):
            if options.start:
                it = started(name, threads, options.rounds)
                sizes = f"{it.arena / 1024:9.0f} {it.plan / 1024:9.0f}"
                print(f"{name:30} {threads:7}  {sizes}  {it.cold:6.2f}  {it.warm:6.2f}", flush=True)
                continue
            found = measured(options, name, threads)
            target = subject.target[options.instructions == "avx2"] if threads == 2 and not options.mixed else None
            print(f"{name:30} {threads:7}  {row(found, target, options.mixed)}", flush=True)


def print_table(options):
    """Print the rows of the table of mixed precision, on two threads."""
    print(
        "| network | float32 | fastest float32 peer | mixed | fastest bfloat16 peer | PyTorch autocast | mixed beside |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name in SUBJECTS:
        if any(part in name for part in options.subjects or TABLE):
            found = {key: seconds * 1e3 for key, (seconds, _) in measured(options, name, 2).items()}
            print(mixed_row(name, found), flush=True)


def mixed_row(name, found):
    """Return the row of a subject from the milliseconds of each contender."""
    ours, mixed = found.pop("prograd"), found.pop("prograd bfloat16")
    single = {key: ms for key, ms in found.items() if not key.endswith(" bfloat16")}
    half = {key.removesuffix(" bfloat16"): ms for key, ms in found.items() if key not in single}
    autocast = [ms for key, ms in half.items() if key.partition(".")[0] == "torch"]
    beside = f"{ours / mixed:.2f} our float32, {min(found.values(), default=0) / mixed:.2f} the fastest peer"
    cells = [f"{ours:.4g}", fastest(single), f"{mixed:.4g}", fastest(half), f"{min(autocast, default=0):.4g}", beside]
    return f"| {name} | {' | '.join(cells)} |"


def fastest(found):
    """Return the milliseconds and the name of the fastest contender."""
    name = min(found, key=found.get, default=None)
    return f"{found[name]:.4g} {name}" if name else ""


def row(found, target, mixed=""):
    """The words of a row: what it took us, how much memory, and how many times faster that is than each peer."""
    seconds, size = found.pop(f"prograd {mixed}".strip())
    ratios = "  ".join(f"{peer} {other / seconds:.2f}" for peer, (other, _) in found.items())
    least = min((nbytes for _, nbytes in found.values()), default=0) / 2**20
    wanted = f"; target {target}" if target else ""
    return f"{seconds * 1e6:12.1f}  {size / 2**20:4.0f}  {ratios}; leanest {least:.0f} MiB{wanted}"


if __name__ == "__main__":
    main()
