"""One program again, as code, and what judges say: python tests/fuzz/run.py --seed 123, or --file of a recipe."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import judging
from fuzz.building import Building
from fuzz.generate import generated
from fuzz.recipe import Recipe, code
from fuzz.shrink import shrunk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--variants", type=int, default=-1, help="besides all passes; all unless given")
    parser.add_argument("--shrink", action="store_true", help="look for the smallest program that fails likewise")
    parser.add_argument("--save", type=Path, help="where to write the recipe")
    options = parser.parse_args()
    if options.file:
        building = Building.of(Recipe.from_json(options.file.read_text()))
    else:
        building = generated(options.seed).building
    seed = options.seed or 0
    found = judging.judged(building, seed, judging.pick(seed, options.variants), symbol=seed % 3 == 0)
    recipe = building.recipe
    bad = [v for v in found if v.word in ("differs", "raised")]
    if options.shrink and bad:
        recipe = shrunk(recipe, lambda candidate: judging.fails_again(candidate, bad[0]))
    print(code(recipe))
    for verdict in bad[:8] if bad else found:
        print("#", verdict)
    if options.save:
        options.save.write_text(recipe.to_json())


if __name__ == "__main__":
    main()
