"""Backend tests of onnx that pass: imported, exported, imported again, and compared with their results once more.

PYTHONPATH=tests python -m conformance.round_trip --kind node
PYTHONPATH=tests python -m conformance.round_trip --kind node --every 20
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter

from conformance.backend import KINDS, cases, judged
from conformance.run import rows


def main() -> int:
    """Print the cases whose second import differs, and count those that cannot be exported; fail if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, default="node")
    parser.add_argument("--every", type=int, default=1, help="every n-th case")
    parser.add_argument("--match", default="", help="cases whose names contain this")
    options = parser.parse_args()
    differing, refused, count = round_trips(options.kind, options.every, options.match)
    for name, reason in differing.items():
        print(f"{name}: {reason}")
    print(f"{count - len(differing) - sum(refused.values())} of {count} have the same numbers, {len(differing)} differ")
    for reason, number in refused.most_common():
        print(f"{number:6d} not exported: {reason}")
    return 1 if differing else 0


def round_trips(kind: str, every: int, match: str = "") -> tuple[dict[str, str], Counter[str], int]:
    """Return the cases that differ, how many are not exported for each reason, and the number of cases."""
    listed = {name for name, own, _ in rows() if own == kind}
    differing: dict[str, str] = {}
    refused: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx and NumPy warn about infinities that the cases are about
        chosen = [case for case in cases(kind)[::every] if case.name not in listed and match in case.name]
        for case in chosen:
            reason = judged(case, "reference", again=True).reason
            if reason.startswith("NotExported"):
                refused[reason.rpartition(": ")[2]] += 1
            elif reason:
                differing[case.name] = reason
    return differing, refused, len(chosen)


if __name__ == "__main__":
    sys.exit(main())
