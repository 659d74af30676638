"""Random programs by the native engine and by the reference: python tests/fuzz/native.py --count 1000 --jobs 2.

Most are of all operators, with larger tensors than other campaigns draw; every third one is a network of layers. They
are compiled as they are, within a budget, with values that wait in a file, and with room for threads.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from compiler import CompileError
from fuzz import campaign, engines, judging, networks
from fuzz.building import Building
from fuzz.campaign import Trial
from fuzz.generate import generated
from fuzz.variants import NotApplicable, Subject, Variant, budgeted, moved, roomy, whole
from fuzz.verdict import Verdict

HOW = (
    Variant("", whole),
    Variant("within a budget", budgeted),
    Variant("with a file", moved),
    Variant("with room", roomy),
)


def tried(seed: int) -> Trial:
    """One program."""
    trial = Trial(seed)
    if seed % 3 == 2:
        network = networks.drawn(seed)
        verdict = networks.judged(network)
        trial.note([verdict])
        if verdict.word in ("differs", "raised"):
            small = networks.shrunk(network, verdict)
            trial.faults[0] = Verdict(verdict.word, verdict.judge, verdict.what, f"{verdict.detail}\n{small}")
        return trial
    try:
        building = generated(seed, wide=True).building
    except Exception as error:
        trial.note([judging.raised("build", error)])
        return trial
    trial.recipe = building.recipe
    trial.note([verdict_of(building, seed)])
    return trial


def verdict_of(building: Building, seed: int, how: Variant | None = None) -> Verdict:
    """Compare both engines on a program that is compiled in a way that the seed chooses."""
    rng = np.random.default_rng((seed, 4))
    chosen = how or HOW[max(0, int(rng.integers(-4, len(HOW))))]
    name = f"{engines.SAID} {chosen.name}".strip()
    try:
        subject = Subject.of(building.program, building.recipe.feeds, building.recipe.sizes, rng)
        program = chosen.compile(subject)
    except NotApplicable as reason:
        return Verdict("skipped", name, "numbers", str(reason))
    except CompileError:
        return Verdict("skipped", name, "numbers", "refused while compiling")
    try:
        return engines.judged(program, building.recipe.feeds, (1, 2, 3), chosen.name)
    except Exception as error:
        return judging.raised(name, error)


def fails_again(building: Building, like: Verdict) -> bool:
    """Return True if it fails in the same way."""
    [how] = [variant for variant in HOW if f"{engines.SAID} {variant.name}".strip() == like.judge]
    found = verdict_of(building, 0, how)
    return (found.word, found.judge) == (like.word, like.judge) and (found.word != "raised" or found.what == like.what)


def main() -> None:
    campaign.run_uncached(tried, __doc__ or "")


if __name__ == "__main__":
    main()
