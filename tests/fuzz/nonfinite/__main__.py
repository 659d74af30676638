"""Trials in several processes: PYTHONPATH=tests python -m fuzz.nonfinite --count 1000 --jobs 2."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter

from fuzz.nonfinite.judge import tried


def campaign() -> int:
    parser = argparse.ArgumentParser(description="Random trainings with NaN or Inf injected at a random op and step.")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    faults = 0
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        seeds = range(given.start, given.start + given.count)
        for done, (found, fault) in enumerate(pool.imap(tried, seeds), 1):
            counts += found
            if fault:
                faults += 1
                print(f"seed {given.start + done - 1}: {fault}", flush=True)
            if done % 100 == 0:
                print(f"{done} of {given.count}, {faults} with a fault", file=sys.stderr, flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:6} {what}")
    print(f"{given.count} trials, {faults} with a fault")
    return faults


if __name__ == "__main__":
    sys.exit(min(campaign(), 1))
