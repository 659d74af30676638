"""Try many random programs with conditions and loops.

    PYTHONPATH=tests python -m fuzz.control_flow --count 3000 --judges torch differences native/5 bits/10 jax/30

PyTorch and JAX are other oracles, where they are installed. A fault is printed with its seed; `--start SEED --count 1
--show` repeats it and prints the program.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import Counter
from functools import partial

from fuzz.campaign import quiet
from fuzz.control_flow.judge import tried

WHICH = "torch, jax, differences, native, bits; jax/20 asks for every 20th program"


def main() -> int:
    """Try the seeds; return 1 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--judges", nargs="*", default=["torch", "jax", "differences", "native", "bits"], help=WHICH)
    parser.add_argument("--show", action="store_true", help="print the programs")
    given = parser.parse_args()
    quiet()
    if given.show:
        from fuzz.control_flow.draw import drawn
        from fuzz.control_flow.tree import printed

        for seed in range(given.start, given.start + given.count):
            tree = drawn(seed)
            print(f"seed {seed}, feeds {[array.shape for array in tree.feeds]}")
            print(printed(tree.body, len(tree.feeds)))
    counts: Counter[str] = Counter()
    begin, faulty = time.monotonic(), 0
    task = partial(tried, judges=tuple(given.judges))
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        seeds = range(given.start, given.start + given.count)
        for number, (seed, said) in enumerate(pool.imap_unordered(task, seeds, chunksize=4), 1):
            counts.update(text.partition(":")[0] for text in said)
            faults = [text for text in said if not text.startswith("skipped")]
            faulty += bool(faults)
            if faults:
                print(f"seed {seed}: {len(faults)} faults: " + "; ".join(faults[:3]), flush=True)
            if number % 50 == 0 or number == given.count:
                rate = number / (time.monotonic() - begin)
                print(f"-- {number} of {given.count}, {faulty} with a fault, {rate:.1f} a second", flush=True)
    print(f"{'FAULTS' if faulty else 'OK'} seeds={given.start}..{given.start + given.count - 1} {dict(counts)}")
    return int(bool(faulty))


if __name__ == "__main__":
    raise SystemExit(main())
