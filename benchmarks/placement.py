"""Placing buffers: how near the lower bound, and how long it takes, on one core.

    python benchmarks/placement.py                    synthetic training steps of 400 to 100,000 tensors
    python benchmarks/placement.py FOLDER             also every table FOLDER/*.csv, with columns id, lower, upper, size
    python benchmarks/placement.py --markdown ...     as a table for docs/memory.md

Tables have alignment 1 and more effort than a program that is compiled. Seconds are those of the process, in which
other processes have no part. `first fit` goes from the largest to the smallest into the lowest gap, as several
published planners do. Published seconds are those of MiniMalloc's authors, in C++ on their machine, for the capacity in
the table's name.
"""

import argparse
import csv
import sys
from pathlib import Path
from time import process_time

from cases.training_buffers import FAMILIES

from runtime.placement import THOROUGH, Buffer, Effort, check_placement, place
from runtime.placement.gaps import first_fit
from runtime.placement.rankings import ranking_of
from runtime.placement.sections import parts_of

PUBLISHED = {"A": 4.910, "C": 0.637, "E": 3.717, "G": 1.181, "I": 3.908, "K": 0.628}
TARGETS = {"G_1": (1.0, 10), "resnet50": (1.001, 10), "pangu_2.6B": (1.001, 10)}  # ratio, seconds
LETTERED = (1.0, 60)
EXHAUSTIVE = Effort(steps=10, visits=60_000_000)
LAYERS = {"cnn": (15, 36, 360, 3600), "transformer": (9, 22, 220, 2200)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, help="with tables of buffers")
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/memory.md")
    options = parser.parse_args()
    show = Table(options.markdown)
    for path in sorted(options.folder.glob("*.csv")) if options.folder else []:
        buffers, name = read_buffers(path), path.name.removesuffix(".csv")
        wanted = TARGETS.get(name, LETTERED if name[0] in PUBLISHED else None)
        show.row(name, buffers, EXHAUSTIVE, 1, wanted, PUBLISHED.get(name.partition(".")[0]))
    for family, build in FAMILIES.items():
        for layers in LAYERS[family]:
            for updates in ("immediate", "deferred"):
                buffers = [Buffer(f"b{i}", *span) for i, span in enumerate(build(layers, updates))]
                wanted = 1.001, seconds_for(len(buffers))
                show.row(f"{family}, {updates} updates", buffers, THOROUGH, 64, wanted, None)


def read_buffers(path):
    """The buffers of a table."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        return [Buffer(row["id"], int(row["size"]), int(row["lower"]), int(row["upper"])) for row in rows]


def seconds_for(tensors):
    """A second for 10,000, half a minute for 100,000; fewer have a limit of quality only."""
    if tensors < 9_000:
        return None
    return 1 if tensors < 11_000 else 30


class Table:
    COLUMNS = ("buffers of", "n", "lower bound", "arena", "ratio", "seconds", "by", "first fit", "published", "target")

    def __init__(self, markdown):
        self.markdown = markdown
        self.line(self.COLUMNS)
        if markdown:
            self.line(["---"] * len(self.COLUMNS))

    def row(self, name, buffers, effort, alignment, wanted, published):
        start = process_time()
        placement = place(buffers, effort, alignment=alignment)
        seconds = process_time() - start
        check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=alignment)
        ratio = placement.arena_bytes / placement.lower_bound
        greedy = largest_first(buffers, alignment) / placement.lower_bound
        verdict = ""
        if wanted:
            most, limit = wanted
            verdict = f"{most:g}" if limit is None else f"{most:g} in {limit} s"
            verdict += "" if ratio <= most and (limit is None or seconds <= limit) else " MISSED"
        published = f"{published:.2f} s" if published else ""
        method = placement.method.replace(" and ", ", ")
        self.line([name, len(buffers), placement.lower_bound, placement.arena_bytes, f"{ratio:.5f}", f"{seconds:.2f}",
                   method, f"{greedy:.5f}" if greedy else "", published, verdict])  # fmt: skip  # as the columns

    def line(self, cells):
        if self.markdown:
            print("|", " | ".join(map(str, cells)), "|")
        else:
            widths = (30, 7, 12, 12, 8, 8, 28, 10, 10, 0)
            print("".join(f"{cell!s:{width}} " for cell, width in zip(cells, widths, strict=True)).rstrip())
        sys.stdout.flush()


def largest_first(buffers, alignment):
    """The arena of first fit by size, or 0 for more buffers than that can be asked of."""
    if len(buffers) > 20_000:
        return 0
    heights = [0]
    for part in parts_of([(b.start, b.stop, -(-b.nbytes // alignment) * alignment) for b in buffers]):
        offsets = first_fit(part, ranking_of(part, ("size", "life")))
        heights.append(max(offset + item.size for offset, item in zip(offsets, part.items, strict=True)))
    return max(heights)


if __name__ == "__main__":
    main()
