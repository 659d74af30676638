"""Good programs natively, each with guards behind buffers and before them: PYTHONPATH=tests python -m guards.

They are the networks of ordinary sizes, the files of the repository, every sample of every operator, and the large
samples. The exit code is 1 if one of them is a fault.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mutations import good_programs, one_op
from samples import LARGE

from guards import campaign, programs, trials
from prograd_proto.files import END, canonical_bytes

MOST_BYTES = 1 << 30
"""Upper bound on the memory of a step of one of these programs."""


def cases() -> list[tuple[str, bytes | Path]]:
    """Return all programs by name, as bytes or files."""
    networks = [(name, programs.as_bytes(name)) for name in programs.NETWORKS]
    files = [(path.name, path) for path in programs.files()]
    small = [(f"good program {number}", raw) for number, raw in enumerate(good_programs())]
    large = [(str(sample), canonical_bytes(one_op(sample)) + END) for sample in LARGE]
    return [*networks, *files, *small, *large]


def main() -> int:
    """Run all programs, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", default="", help="an instruction set, as avx2; default: the best")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given, tried = parser.parse_args(), cases()

    def one(number: int, folder: Path) -> str:
        name, content = tried[number]
        path = content if isinstance(content, Path) else folder / "program.pb"
        if isinstance(content, bytes):
            path.write_bytes(content)
        try:
            return trials.trial(path, 0, given.instructions, most=MOST_BYTES)
        except Exception as error:
            error.add_note(name)
            raise

    counts = campaign.run(one, 0, len(tried), given.jobs, every=100)
    print(f"{len(tried)} programs: {dict(counts)}")
    return int(campaign.FAULT in counts)


if __name__ == "__main__":
    raise SystemExit(main())
