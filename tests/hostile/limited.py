"""Hostile ONNX files and programs under limits: `PYTHONPATH=tests nice python -m hostile.limited --count 5000`.

Half of the files are of ONNX. They go through `compiler import onnx` and, where that writes a program, through `runtime
profile`, which makes a step of it. The others are programs, some with up to 1,000 axes. Each goes through three of
`check`, `compile`, `plan`, `summary`, `show`, `execute` and `profile`. Each verb gets `--max-memory 256MiB --max-time
10` as far as it has these options. The command ends with 1 if a call ends by a signal, with 70 or another code that is
not documented, with more than 1.2 times the memory, or more than 3 seconds after the time.

A process that has imported what the verbs import is forked for each call. Memory is the peak of resident memory that
the system counts for the forked process (`ru_maxrss` of wait4). It begins with the pages that the fork shares with its
parent: the modules of both commands, somewhat more than one command has alone. Time is the wall time from the fork to
the end. `--case SEED` repeats one case in words.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, NoReturn

from mutations import messages

from compiler.__main__ import main as compiler
from hostile.cases import clear
from hostile.judge import CODES
from hostile.judge import call as call_of_command
from hostile.messages import mutated
from hostile.onnx_models import AXES, good_models, hostile_model
from hostile.programs import furnish, parsed, programs
from prograd_proto import program_pb2 as pb
from runtime.__main__ import main as runtime

MEMORY: Final = 256 << 20
SECONDS: Final = 10.0
MEMORY_FACTOR: Final = 1.2
GRACE_SECONDS: Final = 3.0
HANG_SECONDS: Final = 60
"""Seconds after which a call that hangs is ended by a signal."""

LIMITS: Final = ["--max-memory", "256MiB", "--max-time", "10"]

IMPORT: Final = ["import", "onnx", "m.onnx", "-o", "m.pb", "--force", *LIMITS]

PROFILE: Final = ["profile", "m.pb", "--entry", "predict", "--steps", "1", *LIMITS]
"""Runs a step on feeds of zeros."""

Call = tuple[Callable[[list[str]], int], list[str]]

PROGRAM_CALLS: Final[tuple[Call, ...]] = (
    (compiler, ["check", "m.pb"]),
    (runtime, ["check", "m.pb"]),
    (compiler, ["compile", "m.pb", "-o", "o.pb", "--force"]),
    (compiler, ["plan", "m.pb", "-o", "o.pb", "--force", "--budget", "1MiB", "--max-time", "10"]),
    (compiler, ["summary", "m.pb"]),
    (compiler, ["show", "m.pb", "--memory"]),
    (runtime, ["execute", "m.pb", "-q", "--entry", "predict", *LIMITS]),
    (runtime, ["execute", "m.pb", "-q", "--steps", "1", *LIMITS]),
    (runtime, PROFILE),
)


class Ending(NamedTuple):
    """How a call ended.

    Attributes:
        code: the exit code, negative for a signal.
        peak_bytes: the most resident memory.
        seconds: wall time.
        said: the end of stderr.
    """

    code: int
    peak_bytes: int
    seconds: float
    said: str

    @property
    def faults(self) -> list[str]:
        """Return the faults of the case, in words."""
        wrong = {
            f"code {self.code}": self.code not in CODES,
            "memory": self.peak_bytes > MEMORY_FACTOR * MEMORY,
            "time": self.seconds > SECONDS + GRACE_SECONDS,
            "a traceback": "Traceback" in self.said,
        }
        return [words for words, holds in wrong.items() if holds]


def ending(call: Call, modules: Path | None = None) -> Ending:
    """Return how a call ends in a process that is forked for it; write the names of its modules to a file, if any."""
    start = time.monotonic()
    child = os.fork()
    if not child:
        _run(call, modules)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    _, status, usage = os.wait4(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    seconds = time.monotonic() - start
    said = Path("stderr").read_text(errors="replace")[-2000:]
    return Ending(os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10, seconds, said)


def _run(call: Call, modules: Path | None) -> None:
    """Run a command and end the process."""
    command, words = call
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    if modules is not None:
        _tell_modules(modules)
    code = 70
    try:
        code = command(words)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _tell_modules(file: Path) -> None:
    """Write the names of all modules to a file when this process ends."""
    leave = os._exit

    def told(code: int) -> NoReturn:
        file.write_text("\n".join(sys.modules))
        leave(code)

    os._exit = told


def warm(folder: Path) -> None:
    """Import what the verbs import for good files, so that forked processes find it."""
    for number, call in enumerate((*PROGRAM_CALLS, (compiler, IMPORT))):
        (folder / "m.pb").write_bytes((folder / "good.pb").read_bytes())
        (folder / "m.onnx").write_bytes(good_models()[number % len(good_models())])
        found = ending(call, folder / "modules")
        if found.code:
            raise SystemExit(f"a good file ends {call[1]} with {found.code}: {found.said}")
        for name in (folder / "modules").read_text().splitlines():
            with suppress(ImportError):
                import_module(name)
    clear(folder)
    for command, words in (*PROGRAM_CALLS, (compiler, IMPORT)):
        call_of_command(command, words)  # there is no such file; from now on, words are parsed


def hostile_program(rng: random.Random) -> bytes:
    """Return a changed program; one of four has more axes than any tensor may have."""
    if rng.random() < 0.75:
        return mutated(rng)
    single, training, _ = programs()
    program = parsed(rng.choice(rng.choice((single, training))))
    shapes = [m for m in messages(program) if isinstance(m, pb.Shape)]
    axes = rng.choice(AXES)
    for shape in shapes if rng.random() < 0.7 else [rng.choice(shapes)]:
        own = list(shape.dims)
        del shape.dims[:]
        shape.dims.extend([pb.Dim(size=1)] * max(0, axes - len(own)))
        shape.dims.extend(own)
    return program.SerializeToString(deterministic=True)


def endings(seed: int) -> Iterator[tuple[str, Ending]]:
    """Yield each call of a case and how it ends."""
    rng = random.Random(seed)
    clear(Path())
    if seed % 2:
        Path("m.onnx").write_bytes(hostile_model(rng))
        found = ending((compiler, IMPORT))
        yield "import onnx", found
        calls = [(runtime, PROFILE)] if found.code == 0 else []
    else:
        Path("m.pb").write_bytes(hostile_program(rng))
        calls = rng.sample(PROGRAM_CALLS, 3)
    for call in calls:
        yield f"{call[0].__module__.partition('.')[0]} {call[1][0]}", ending(call)


class Report:
    """The counts of a campaign, and its faults.

    Attributes:
        codes: calls by verb and exit code.
        kinds: faults by verb and kind.
        peak_bytes: the most memory of a call.
        seconds: wall time of the longest call.
    """

    def __init__(self, *, tells_all: bool) -> None:
        self.codes: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.peak_bytes, self.seconds = 0, 0.0
        self._tells_all = tells_all

    def add(self, seed: int, name: str, found: Ending) -> None:
        """Count a call, and print it if something is wrong with it."""
        self.codes[f"{name} {found.code}"] += 1
        self.peak_bytes, self.seconds = max(self.peak_bytes, found.peak_bytes), max(self.seconds, found.seconds)
        if found.faults:
            self.kinds[f"{name}: {', '.join(found.faults)}"] += 1
        if found.faults or self._tells_all:
            numbers = f"{found.peak_bytes >> 20} MiB {found.seconds:.1f} s"
            print(f"seed {seed}: {name}: {found.code} {numbers} {found.faults} {found.said[-400:]!r}", flush=True)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the end."""
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        memory = f"{self.peak_bytes >> 20} MiB of {MEMORY >> 20} (the parent: {own} MiB)"
        yield f"{sum(self.codes.values())} calls; most memory {memory}, longest call {self.seconds:.1f} s"
        yield from (f"  {words}: {count}" for words, count in sorted(self.codes.items()))
        yield from (f"{count} times {kind}" for kind, count in self.kinds.items())


def main() -> int:
    """Try the cases; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hostile.limited")
    parser.add_argument("--count", type=int, default=300, help="files")
    parser.add_argument("--seed", type=int, default=0, help="of the first file")
    parser.add_argument("--case", type=int, help="try this seed alone, in words")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count) if options.case is None else [options.case]
    start, report = time.monotonic(), Report(tells_all=options.case is not None)
    good_models(), programs()  # built once; processes are forked
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        os.chdir(folder)
        tempfile.tempdir = folder
        furnish(Path(folder))
        warm(Path(folder))
        for done, seed in enumerate(seeds, 1):
            for name, found in endings(seed):
                report.add(seed, name, found)
            if done % 500 == 0:
                seconds = time.monotonic() - start
                print(f"{done} files in {seconds:.0f} s, {report.kinds.total()} faults", flush=True)
        os.chdir("/")
    print(f"{len(seeds)} files in {time.monotonic() - start:.0f} s")
    print(*report.lines(), sep="\n")
    return 1 if report.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
