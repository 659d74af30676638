"""A campaign over random modules: `PYTHONPATH=tests python -m fuzz.modules --count 100 --start 0 [--narrow]`."""

from __future__ import annotations

import argparse
import gc
import logging
import traceback
import warnings
from collections import Counter

import torch

from fuzz.modules.draw import drawn
from fuzz.modules.judge import judged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--pieces", type=int, default=8, help="upper bound on the pieces of a module")
    parser.add_argument("--narrow", action="store_true", help="compare in float32 by the native engine")
    parser.add_argument("--show", action="store_true", help="print each module")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)  # each export makes millions of objects, and the packages keep as many
    counts = Counter[str]()
    for seed in range(options.start, options.start + options.count):
        module = drawn(seed, pieces=options.pieces)
        try:
            verdict = judged(module, narrow=options.narrow)
            kind, told = verdict.kind, verdict.told
            kind = "rounds" if kind == "differs" and "rounding:" in told else kind
        except Exception:  # an error of Python is a finding, too
            kind, told = "error", traceback.format_exc()
        counts[kind] += 1
        if not kind.startswith("agrees") or options.show:
            print(f"seed {seed}: {kind} {told}\n{module if kind != 'refused' else ''}", flush=True)
    print(dict(counts))
    raise SystemExit(bool(counts["differs"] or counts["error"]))


if __name__ == "__main__":
    main()
