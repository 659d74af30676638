"""Measure the cost of a budget in time and its saving of process memory, with and without a spill file.

    python benchmarks/spilling.py FOLDER               a table; the file lies in that folder, which is to be on a disk
    python benchmarks/spilling.py FOLDER --markdown    for docs/memory.md

ResNet-18 on images of 32 x 32, batch 32. Every way trains the same steps in a process of its own, in turns; numbers are
medians over the processes. All must end with the same states.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from cases.networks import NETWORKS

BATCH, STEPS, ROUNDS = 32, 6, 3
MIB = 2**20
WAYS = (
    ("no budget", None, False),
    ("half, computed again", 1 / 2, False),
    ("half, a file too", 1 / 2, True),
    ("3/8, a file too", 3 / 8, True),
)
HEAD = ("way", "arena", "file", "peak RSS", "seconds a step", "to no budget")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/memory.md")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        write_programs(Path(folder))
        found = {way: [] for way, _, _ in WAYS}
        for _ in range(ROUNDS):
            for number, (way, _, _) in enumerate(WAYS):
                found[way].append(run(Path(folder), f"{number}.pb", options.folder.absolute()))
    assert len({fields["state_sha256"] for runs in found.values() for fields in runs}) == 1, "the bits differ"
    seconds = {way: median(float(fields["wall"]) for fields in runs) / STEPS for way, runs in found.items()}
    print("| " + " | ".join(HEAD) + " |" if options.markdown else "".join(f"{word:>22}" for word in HEAD))
    if options.markdown:
        print("|" + " --- |" * len(HEAD))
    for way, runs in found.items():
        sizes = [median(int(fields.get(name, 0)) for fields in runs) / MIB for name in ("arena", "spill", "rss")]
        row = [
            way,
            *(f"{size:.1f}" for size in sizes),
            f"{seconds[way]:.2f}",
            f"{seconds[way] / seconds['no budget']:.2f}",
        ]
        print("| " + " | ".join(row) + " |" if options.markdown else "".join(f"{word:>22}" for word in row))


def write_programs(folder):
    """A program for each way, and rows for all."""
    rng = np.random.default_rng(0)
    np.save(folder / "image.npy", rng.normal(size=(BATCH * STEPS, 32, 32, 3)).astype("float32"))
    np.save(folder / "label.npy", rng.integers(0, 10, BATCH * STEPS))
    for number, (_, part, spill) in enumerate(WAYS):
        compiled = NETWORKS["ResNet-18"]().compile(n=BATCH)
        if part is not None:
            compiled.plan(int(part * compiled.desc.entries[0].bindings[0].plan.arena_bytes), spill=spill)
        compiled.save(folder / f"{number}.pb", force=True)


def run(folder, program, spill):
    """The fields of the result line."""
    feeds = ["--feed", "image=@image.npy", "--feed", "label=@label.npy"]
    command = ["execute", program, "--entry", "train", *feeds, "--steps", str(STEPS), "--spill", str(spill), "-q"]
    done = subprocess.run([sys.executable, "-m", "runtime", *command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(word.split("=") for word in done.stdout.split()[1:])


if __name__ == "__main__":
    main()
