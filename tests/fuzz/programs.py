"""Random programs against all judges: python tests/fuzz/programs.py --count 10000 --jobs 2."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import campaign, judging
from fuzz.campaign import Trial
from fuzz.generate import generated


def tried(
    seed: int, variants: int = 1, thorough: int = 10, judges: tuple[str, ...] = ("differences", "torch")
) -> Trial:
    """One program: every `thorough`-th in all variants."""
    trial = Trial(seed)
    try:
        made = generated(seed)
    except Exception as error:
        trial.note([judging.raised("build", error)])
        return trial
    trial.recipe = made.building.recipe
    trial.counts[f"programs of order {made.order}"] += 1
    trial.counts["ops"] += len(made.building.tape)
    trial.counts.update({f"refused: {reason}": count for reason, count in made.refused.items()})
    chosen = judging.pick(seed, -1 if thorough and seed % thorough == 0 else variants)
    trial.note(judging.judged(made.building, seed, chosen, judges, symbol=seed % 3 == 0))
    return trial


def main() -> None:
    parser = campaign.options(__doc__ or "")
    parser.add_argument("--variants", type=int, default=1, help="random ones for each program, besides all passes")
    parser.add_argument("--thorough", type=int, default=10, help="try every N-th program in all variants; 0 for none")
    parser.add_argument("--judges", nargs="*", default=["differences", "torch"])
    given = parser.parse_args()
    campaign.quiet()
    count = campaign.run(
        partial(tried, variants=given.variants, thorough=given.thorough, judges=tuple(given.judges)), given
    )
    raise SystemExit(bool(count))


if __name__ == "__main__":
    main()
