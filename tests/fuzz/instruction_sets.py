"""Random training programs on several instruction sets: python tests/fuzz/instruction_sets.py --count 1000 --jobs 2.

Those with a fused multiply-add give the same bits, in float32 and with mixed precision. A third of the programs are of
all operators, a third are networks of layers of odd sizes, and a third networks of ordinary ones. Some have feeds with
NaN, infinities and denormal numbers, which NaN stands for whatever its sign and payload.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from subjects import random_networks

from compiler import CompileError, OpError, mixed
from compiler.build.mixed import Mixed
from fuzz import campaign, engines, judging, networks
from fuzz.building import Building
from fuzz.campaign import Trial
from fuzz.engines import Results
from fuzz.generate import generated
from fuzz.variants import bits
from fuzz.verdict import Verdict
from prograd_proto import program_pb2 as pb
from runtime.codegen.machine import target
from runtime.engines.native.cpu import instruction_sets

SETS = [name for name in instruction_sets() if target(name).fma]
"""The instruction sets of this machine that give the same bits."""

JUDGE = "instruction sets"
"""Prefix of the names of this judge's findings."""

Compare = Callable[[pb.ProgramDesc, Mapping[str, np.ndarray], str], Verdict]
"""Function that judges a compiled program with these feeds, under a name."""

ODD_NUMBERS = (np.nan, np.inf, -np.inf, 1e-40, -1e-42, 3e38, -0.0)
"""Numbers that some feeds contain."""


def precisions(judge: str) -> dict[str, Mixed | str | None]:
    """Return the names of a judge, and the precision with which each compiles."""
    return {judge: None, f"{judge}, mixed": "bfloat16", f"{judge}, by pairs": mixed("bfloat16", order="pairs")}


def tried(seed: int, compare: Compare | None = None, judge: str = JUDGE) -> Trial:
    """Try one program with and without mixed precision."""
    compare = compare or compared
    trial = Trial(seed)
    if seed % 3 == 0:
        try:
            building = generated(seed, wide=True).building
        except Exception as error:
            trial.note([judging.raised("build", error)])
            return trial
        trial.recipe = building.recipe
        trial.note([of_building(building, name, compare) for name in precisions(judge)])
        return trial
    for name, asked in precisions(judge).items():
        if seed % 3 == 1:
            program, feeds = random_networks.network(seed)
            desc = program.compile(batch=random_networks.ROWS, mixed=asked).desc
        else:
            network = networks.drawn(seed)
            try:
                desc, feeds = networks.compiled(network, asked).desc, networks.fed(network)
            except (OpError, CompileError) as error:
                trial.note(
                    [Verdict("skipped", name, "bits", f"{type(error).__name__}: {str(error).split(':')[0][:60]}")]
                )
                continue
        trial.note([compare(desc, with_odd_numbers(feeds, seed), name)])
    return trial


def with_odd_numbers(feeds: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Return feeds of which every fourth seed's have a few numbers that are not finite, or denormal."""
    rng, found = np.random.default_rng((seed, 9)), dict(feeds)
    for name, array in feeds.items():
        if seed % 4 == 0 and array.dtype.kind == "f" and array.size:
            found[name] = array.copy()
            count = min(int(rng.integers(1, 4)), array.size)
            found[name].flat[rng.choice(array.size, count, replace=False)] = rng.choice(ODD_NUMBERS, count)
    return found


def of_building(building: Building, name: str, compare: Compare | None = None) -> Verdict:
    """Judge a program that a recipe builds."""
    try:
        [asked] = [each for known, each in precisions(name.partition(",")[0]).items() if known == name]
        desc = building.program.compile(mixed=asked, **building.recipe.sizes).desc
    except CompileError:
        return Verdict("skipped", name, "bits", "refused while compiling")
    return (compare or compared)(desc, building.recipe.feeds, name)


def compared(program: pb.ProgramDesc, feeds: Mapping[str, np.ndarray], name: str) -> Verdict:
    """Run every entry on every instruction set."""
    try:
        for entry in program.entries:
            steps = engines.STEPS if entry.name == "train" else 1
            first, *others = SETS
            wanted = engines.stepped(program, entry.name, feeds, steps, f"native.{first}")
            for number, other in enumerate(others):
                found = engines.stepped(program, entry.name, feeds, steps, f"native.{other}", 1 + number % 2)
                if what := differing(wanted, found):
                    return Verdict("differs", name, f"{entry.name}, {what}", f"{first} and {other}")
    except Exception as error:
        return judging.raised(name, error)
    return Verdict("agreed", name, "bits")


def differing(wanted: Results, found: Results) -> str:
    """Return the step and the name of a result with other bits, or nothing."""
    for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        for name, array in theirs.items():
            if bits(mine[name]) != bits(array):
                return f"{'state' if number == len(wanted) - 1 else f'step {number}'}: {name}"
    return ""


def fails_again(building: Building, like: Verdict) -> bool:
    """Return True if it fails in the same way."""
    found = of_building(building, like.judge)
    return (found.word, found.judge) == (like.word, like.judge) and (found.word != "raised" or found.what == like.what)


def main() -> None:
    campaign.run_uncached(tried, __doc__ or "")


if __name__ == "__main__":
    main()
