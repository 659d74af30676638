"""All families of operators in all ways that change no bit: python tests/native/every_way.py [FAMILY...].

It takes some minutes, and about an hour with `--fetch-each`, which fetches every tensor of every family by itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from subjects.families import FAMILIES, ROWS, family_feeds, family_program
from subjects.ways import WAYS, Subject, steps_of


def differing(family: str, ways: list[str]) -> list[str]:
    """Return a line for each way in which a family has other bits."""
    subject = Subject(family_program(family), {"batch": ROWS}, family_feeds)
    expected = steps_of(subject.compiled, subject.feeds)
    lines: list[str] = []
    for way in ways:
        for label, results in WAYS[way](subject):
            names = [name for name in expected if results[name] != expected[name]]
            lines += [f"{family}, {label}: {len(names)} differ, such as {names[0]}"] if names else []
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="names of tests/subjects/families.py; else all")
    parser.add_argument("--fetch-each", action="store_true", help="fetch every tensor by itself too")
    options = parser.parse_args()
    os.environ["PROGRAD_CACHE"] = ""
    ways = [way for way in WAYS if options.fetch_each or way != "fetch_each"]
    found = 0
    for family in options.families or FAMILIES:
        lines = differing(family, ways)
        found += len(lines)
        print(*(lines or [f"{family}: the same bits"]), sep="\n", flush=True)
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
