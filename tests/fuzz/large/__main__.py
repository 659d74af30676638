"""Operators at large extents, in several processes: PYTHONPATH=tests python -m fuzz.large --count 1000 --jobs 2.

A case has one extent near a threshold of a kernel. Its values are near those of float64, and its bits are equal on all
instruction sets of this machine, with 1 to 7 threads, for several caches, and with buffers between forbidden pages.
"""

from __future__ import annotations

import argparse
import os
import sys

from guards import campaign

from fuzz.campaign import quiet
from fuzz.large.judge import subject_of, tried


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--show", action="store_true", help="print the cases and run none")
    given = parser.parse_args()
    quiet()
    os.environ["PROGRAD_CACHE"] = ""  # a campaign would fill the folder
    if given.show:
        for seed in range(given.seed, given.seed + given.count):
            print(f"seed {seed}: {subject_of(seed)}")
        return 0
    counts = campaign.run(tried, given.seed, given.count, given.jobs, every=50)
    for name, count in sorted(counts.items()):
        print(f"{count:8d}  {name}")
    print(f"{counts.total()} seeds from {given.seed} on, {counts[campaign.FAULT]} with a fault")
    return min(counts[campaign.FAULT], 1)


if __name__ == "__main__":
    sys.exit(main())
