"""Single operators with random attributes, types and shapes: python tests/fuzz/operators.py --count 10000.

Each seed calls one operator or spelled function, the same tensor in several places often, and takes gradients up to the
third order: of the sum of seeds times results, then of those gradients, for all inputs and seeds.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from fuzz import campaign, judging
from fuzz.campaign import Trial
from fuzz.drawing import FLOATS, Draw, Ref, Refused
from fuzz.makers import MAKERS

NAMES = tuple(MAKERS)


def drawn(seed: int, orders: int = 3) -> tuple[Draw, str]:
    """A program of one call and its gradients, and the name of what is called."""
    rng = np.random.default_rng((seed, 4))
    name = NAMES[seed % len(NAMES)]
    mixed = rng.random() < 0.25
    draw = Draw(
        rng,
        dtypes=FLOATS[::-1] if mixed else ("float64",),
        zeros=0.15 if rng.random() < 0.2 else 0.0,
        fresh=float(rng.choice([0.15, 0.6, 1.0])),
        halves=mixed,
    )
    for _ in range(20):  # a maker of several operators may call another one
        draw.choice(MAKERS[name])(draw)
        if name in draw.made:
            break
    with suppress(Refused):  # an operator without a gradient is compared by its values
        differentiate(draw, orders)
    return draw, name


def differentiate(draw: Draw, orders: int) -> None:
    """Gradients of what the last call gave, of these, and of those."""
    last = draw.building.recipe.steps[-1]
    found: dict[str, Ref] = {x.name: x for x in (*draw.pool, *draw.wild)}
    targets = [found[name] for name in last.outputs if name in found and found[name].dtype in FLOATS]
    targets = [x for x in targets if x in draw.pool]
    if len(targets) > 1 and draw.chance(0.3):
        targets = [draw.choice(targets)]
    for _ in range(orders):
        leaves = [x for x in found.values() if x.name[0] in "xw" and x.dtype in FLOATS and x in draw.pool]
        if not targets or not leaves:
            return
        seeds = [draw.fresh(x.shape, x.dtype) if draw.chance(0.85) else None for x in targets]
        found.update({x.name: x for x in seeds if x is not None})
        grads = draw.gradients(targets, leaves, seeds)
        targets = [g for g in grads if g is not None and g in draw.pool]


def tried(seed: int, variants: int = 1) -> Trial:
    """One operator."""
    trial = Trial(seed)
    try:
        draw, name = drawn(seed)
    except Refused as reason:
        trial.counts[f"refused: {str(reason).split(':')[0]}"] += 1
        return trial
    except Exception as error:
        trial.note([judging.raised("build", error)])
        return trial
    building = draw.building
    trial.recipe = building.recipe
    trial.counts[f"calls of {name}" if name in draw.made else f"not called: {name}"] += 1
    outputs = {f"y{i}": x for i, x in enumerate(x for x in (*draw.pool, *draw.wild) if x.name[0] in "vg")}
    if outputs:
        draw.program("outputs", **outputs)
    trial.note(judging.judged(building, seed, judging.pick(seed, variants) if outputs else []))
    return trial


def main() -> None:
    parser = campaign.options((__doc__ or "").splitlines()[0])
    parser.add_argument("--variants", type=int, default=1, help="random ones for each call, besides all passes")
    given = parser.parse_args()
    campaign.quiet()
    raise SystemExit(bool(campaign.run(partial(tried, variants=given.variants), given)))


if __name__ == "__main__":
    main()
