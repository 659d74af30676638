"""Many cases, in several processes: `PYTHONPATH=tests nice python -m hostile --count 100000 --jobs 2 --seed 1`.

Ends with code 1 if one fails; each kind of failure is made smaller and saved, with the words that show it, in the
folder of `--keep`. `--case SEED` tries one case and prints what its calls say.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hostile.cases import Case, case_of, clear, smaller, try_case
from hostile.judge import watch_writes
from hostile.programs import furnish, programs

MEMORY = 4 << 30
HANG = 120
CHUNK = 500


def main() -> int:
    """Try the cases from `--seed` on; the exit code."""
    parser = argparse.ArgumentParser(prog="hostile")
    parser.add_argument("--count", type=int, default=1000, help="cases")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--keep", type=Path, default=Path("hostile-failures"), help="folder for what fails")
    parser.add_argument("--case", type=int, help="try this seed alone, in words")
    options = parser.parse_args()
    if options.case is not None:
        return one_case(options.case)
    start = time.monotonic()
    total = Results()
    for results in _in_processes(options):
        for kind, cases in results.kinds.items():
            if kind not in total.kinds:
                print(f"FAULT {kind}\n  {cases[0]}", flush=True)
        before = total.done // 2_000
        total.add(results)
        if total.done // 2_000 > before:
            rate = total.done / (time.monotonic() - start)
            print(f"{total.done} cases, {rate:.0f}/s, {len(total.kinds)} kinds of fault", flush=True)
    print(f"{total.done} cases from seed {options.seed} in {time.monotonic() - start:.0f} s")
    print(f"{sum(total.codes.values())} calls: verb, code, how often")
    for word, count in sorted(total.codes.items()):
        print(f"  {word}: {count}")
    for kind, cases in total.kinds.items():
        print(f"{len(cases)} times {kind}: {cases[0]}")
    return 1 if total.kinds else 0


class Results:
    """Outcome of a number of cases."""

    def __init__(self) -> None:
        self.done = 0
        self.codes: Counter[str] = Counter()
        self.kinds: dict[str, list[str]] = {}

    def add(self, other: Results) -> None:
        """Take another's in."""
        self.done += other.done
        self.codes.update(other.codes)
        for kind, cases in other.kinds.items():
            self.kinds.setdefault(kind, []).extend(cases)


def _in_processes(options: argparse.Namespace) -> Iterator[Results]:
    """The results of each chunk, in a process of its own: one that crashes or hangs is a fault of its last case."""
    programs()  # built once; processes are forked
    context = multiprocessing.get_context("fork")
    end = options.seed + options.count
    waiting = [(first, min(CHUNK, end - first)) for first in range(options.seed, end, CHUNK)][::-1]
    running: dict[Connection, tuple[BaseProcess, Any, int]] = {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            first, count = waiting.pop()
            ours, theirs = context.Pipe(duplex=False)
            at = context.Value("q", first)
            process = context.Process(target=_chunk, args=(first, count, options.keep.absolute(), theirs, at))
            process.start()
            theirs.close()
            running[ours] = process, at, count
        for ours in wait(list(running)):
            process, at, count = running.pop(ours)
            try:
                results = ours.recv()
            except EOFError:
                process.join()
                results = Results()
                results.done = count
                results.kinds = {f"a process ended with {process.exitcode}": [f"seed {at.value}"]}
            process.join()
            yield results


def one_case(seed: int) -> int:
    """Print what each call of a case says."""
    _prepare()
    with TemporaryDirectory(dir=_memory_disk()) as name:
        os.chdir(name)
        tempfile.tempdir = name
        furnish(Path(name))
        case = case_of(seed)
        found, codes = try_case(case, Path(name))
    print(json.dumps({call: [str(c) for c in ended] for call, ended in codes.items()}, indent=1))
    for fault in found:
        print(fault.call, fault.what)
    return 1 if found else 0


def _chunk(first: int, count: int, keep: Path, results_to: Connection, at: Any) -> None:
    _prepare()
    results = Results()
    gc.disable()  # cycles are few, and looking for them after each case takes a tenth of the time
    with TemporaryDirectory(dir=_memory_disk()) as name:
        os.chdir(name)
        folder = Path(name)
        tempfile.tempdir = name
        furnish(folder)
        for seed in range(first, first + count):
            at.value = seed
            faulthandler.dump_traceback_later(HANG, exit=True)
            case = case_of(seed)
            wrong, ended = try_case(case, folder)
            for call, by_code in ended.items():
                results.codes.update({f"{call} {code}": n for code, n in by_code.items()})
            for fault in wrong:
                kind = _kind(fault.call, fault.what)
                results.kinds.setdefault(kind, []).append(f"seed {seed}: {fault.what}")
                faulthandler.dump_traceback_later(HANG, exit=True)
                _save(keep, seed, kind, case, folder, fault.what)
            results.done += 1
            if results.done % 50 == 0:
                gc.collect()
        faulthandler.cancel_dump_traceback_later()
        os.chdir("/")
    results_to.send(results)


def _prepare() -> None:
    if getattr(_prepare, "done", False):
        return
    _prepare.done = True
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    watch_writes()


def _kind(call: str, what: str) -> str:
    """Return the key of faults with one cause: the call, the judgement, and the type of the exception."""
    judged = re.sub(r"^writes .*", "writes", what.partition(":")[0])
    raised = re.search(r"a fault of prograd itself, (\w+): (.{0,40})", what)
    return f"{call}: {judged} {re.sub(r'[0-9]+', 'N', ' '.join(raised.groups())) if raised else ''}"


def _save(keep: Path, seed: int, kind: str, case: Case, folder: Path, what: str) -> None:
    place = keep / re.sub(r"[^\w]+", "-", kind)[:100]
    if place.exists():
        return
    place.mkdir(parents=True)
    reduced = smaller(case, folder, what.partition(":")[0])
    for name, content in reduced.files.items():
        (place / Path(name).name).write_bytes(content)
    words = "\n".join(" ".join([name, *map(repr, rest[1:])]) for name, rest in reduced.calls)
    (place / "words.txt").write_text(f"seed {seed}\n{words}\n{what}\n")
    clear(folder)


def _memory_disk() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


if __name__ == "__main__":
    sys.exit(main())
