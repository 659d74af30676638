"""Many seeds in several processes: progress, counts by outcome, and each fault once, shrunk and as code."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.judging import fails_again
from fuzz.recipe import Recipe, code
from fuzz.shrink import shrunk
from fuzz.verdict import Verdict

Tried = Callable[[int], "Trial"]


@dataclass
class Trial:
    """Outcome of one seed.

    Attributes:
        counts: verdicts by judge and word, with the reason of those that are skipped; what a generator says of itself.
        faults: what differs or raises.
        recipe: the program.
        seconds: by part.
    """

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Verdict] = field(default_factory=list)
    recipe: Recipe | None = None

    def note(self, verdicts: list[Verdict]) -> None:
        for v in verdicts:
            detail = f" ({v.detail})" if v.word == "skipped" else ""
            self.counts[f"{v.judge}: {v.word}{detail}"] += 1
            if v.word in ("differs", "raised"):
                self.faults.append(v)


def options(what: str) -> argparse.ArgumentParser:
    """The options of a campaign."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--start", "--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--folder", type=Path, help="where recipes of faults go")
    parser.add_argument("--no-shrink", action="store_true", help="print programs as they were found")
    return parser


def run_uncached(tried: Tried, what: str) -> None:
    """Run the campaign that the command line asks for, compile all code anew, and exit with 1 if there is a fault."""
    given = options(what).parse_args()
    quiet()
    os.environ["PROGRAD_CACHE"] = ""  # a campaign would fill the folder
    raise SystemExit(bool(run(tried, given, every=20)))


def run(tried: Tried, given: argparse.Namespace, every: int = 200) -> int:
    """Try all seeds, and print progress after `every` seeds; return the number of those with a fault."""
    counts: Counter[str] = Counter()
    known: set[str] = set()
    begin, bad = time.monotonic(), 0
    for number, trial in enumerate(_trials(tried, range(given.start, given.start + given.count), given.jobs), 1):
        counts += trial.counts
        if trial.faults:
            bad += 1
            _report(trial, known, given)
        if number % every == 0 or number == given.count:
            seconds = time.monotonic() - begin
            print(f"-- {number} of {given.count}, {bad} with a fault, {number / seconds:.1f} a second", flush=True)
    for key, count in sorted(counts.items()):
        print(f"{count:8d}  {key}")
    print(f"{'OK' if not bad else 'FAULTS'} seeds={given.start}..{given.start + given.count - 1} faults={bad}")
    return bad


def _trials(tried: Tried, seeds: range, jobs: int) -> Iterator[Trial]:
    if jobs == 1:
        yield from map(tried, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(tried, seeds, chunksize=4)


def _report(trial: Trial, known: set[str], given: argparse.Namespace) -> None:
    """Print a fault of a kind that is new in this campaign, and a line for others."""
    fault = trial.faults[0]
    recipe = trial.recipe
    if recipe is None:
        print(f"seed {trial.seed}: {fault}", flush=True)
        return
    kind = f"{fault.judge} {fault.word}" + (f" {fault.what} {fault.detail[:40]}" if fault.word == "raised" else "")
    if not given.no_shrink and len(known) < 40 and sum(k.startswith(kind) for k in known) < 4:
        recipe = shrunk(recipe, lambda candidate: fails_again(candidate, fault), 150)
        known.add(f"{kind} {trial.seed}")
        print(f"seed {trial.seed}: {fault}\n\n{code(recipe)}\n", flush=True)
    else:
        print(f"seed {trial.seed}: {fault}", flush=True)
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        (given.folder / f"{trial.seed}.json").write_text(recipe.to_json())


def quiet() -> None:
    """One thread for everything that would take more: processes are what is parallel here."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
