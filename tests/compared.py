"""Write docs/compared.md, by comparing with PyTorch on all cores: `python tests/compared.py`, or `make compared`."""

import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import torch
from peers.compare import Outcome, compare
from peers.page import page
from peers.table import PEERS
from peers.trajectories import TRAININGS, Difference, run

PAGE = Path(__file__).parents[1] / "docs/compared.md"


def main() -> int:
    """Write the page; 1 if something differs, which is printed on stderr and leaves the page as it was."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        runs = pool.map(trained, TRAININGS)
        outcomes = list(zip(PEERS, pool.map(compared, range(len(PEERS))), strict=True))
        differences = {
            name: (found, training.limit) for (name, training), found in zip(TRAININGS.items(), runs, strict=True)
        }
    faults = [f"{peer}: {fault}" for peer, outcome in outcomes for fault in outcome.faults]
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        return 1
    version = torch.__version__.partition("+")[0]
    text = page(version, datetime.now(UTC).date().isoformat(), outcomes, differences)
    PAGE.write_text(text, encoding="utf-8")
    return 0


def trained(name: str) -> Difference:
    torch.set_num_threads(1)
    return run(TRAININGS[name])


def compared(number: int) -> Outcome:
    torch.set_num_threads(1)
    return compare(PEERS[number])


if __name__ == "__main__":
    sys.exit(main())
