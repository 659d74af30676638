"""All backend tests of onnx on an engine, and the list of those that do not pass.

PYTHONPATH=tests python -m conformance.run --kind node --engine reference
PYTHONPATH=tests python -m conformance.run --kind node --every 5 --engine native
PYTHONPATH=tests python -m conformance.run --kind node --symbolic
PYTHONPATH=tests python -m conformance.run --kind node --write      # the list again; it may only shrink
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from conformance.backend import KINDS, Verdict, cases, judged

LIST = Path(__file__).with_name("not_passing.tsv")


def main() -> int:
    """Run the cases, and print how many pass; fail if one does not that the list has not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, default="node")
    parser.add_argument("--engine", default="reference")
    parser.add_argument("--every", type=int, default=1, help="every n-th case")
    parser.add_argument("--match", default="", help="cases whose names contain this")
    parser.add_argument("--symbolic", action="store_true", help="with symbols for the sizes of inputs")
    parser.add_argument("--write", action="store_true", help="write the list")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Verdict] = {}
    for case in cases(options.kind)[:: options.every]:
        if options.match in case.name:
            found[case.name] = judged(case, options.engine, symbolic=options.symbolic)
    failed = {name: v.reason for name, v in found.items() if v.reason}
    bound = sum(v.bound and not v.reason for v in found.values())
    carried = sum(v.carried and not v.reason for v in found.values())
    print(
        f"{len(found) - len(failed)} of {len(found)} pass on {options.engine}, {bound} with inputs bound at import, "
        f"{carried} with dtypes that others carry"
    )
    others = {row[0] for row in rows() if row[1] != options.kind}
    if options.write:
        kept = [row for row in rows() if row[1] != options.kind]
        kept += [(name, options.kind, " ".join(reason.split())) for name, reason in failed.items()]
        LIST.write_text("".join("\t".join(row) + "\n" for row in sorted(kept, key=lambda row: (row[1], row[0]))))
        return 0
    known = {row[0] for row in rows()} - others
    for name in sorted(set(failed) - known):
        print(f"{name}: {failed[name]}")
    return 1 if set(failed) - known else 0


def rows() -> list[tuple[str, str, str]]:
    """Return the list: name, kind and reason."""
    if not LIST.is_file():
        return []
    return [tuple(line.split("\t", 2)) for line in LIST.read_text().splitlines()]  # type: ignore[misc]


if __name__ == "__main__":
    sys.exit(main())
