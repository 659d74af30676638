"""Try many random programs with conditions and loops.

    PYTHONPATH=tests python -m fuzz.control_flow --count 3000 --judges torch differences native/5 bits/10 jax/30

PyTorch and JAX are other oracles, where they are installed. A fault is printed with its seed; `--start SEED --count 1
--show` repeats it and prints the program.
"""

from __future__ import annotations

from functools import partial

from fuzz.campaign import options, quiet, run
from fuzz.control_flow.draw import drawn
from fuzz.control_flow.judge import tried
from fuzz.control_flow.tree import printed

WHICH = "torch, jax, differences, native, bits; jax/20 asks for every 20th program"


def main() -> int:
    """Try the seeds; return 1 if there is a fault."""
    parser = options(__doc__ or "")
    parser.add_argument("--judges", nargs="*", default=["torch", "jax", "differences", "native", "bits"], help=WHICH)
    parser.add_argument("--show", action="store_true", help="print the programs")
    given = parser.parse_args()
    quiet()
    for seed in range(given.start, given.start + given.count) if given.show else ():
        tree = drawn(seed)
        print(f"seed {seed}, feeds {[array.shape for array in tree.feeds]}")
        print(printed(tree.body, len(tree.feeds)))
    return int(bool(run(partial(tried, judges=tuple(given.judges)), given, every=50)))


if __name__ == "__main__":
    raise SystemExit(main())
