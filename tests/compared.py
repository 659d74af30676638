"""Print docs/compared.md, by comparing with PyTorch: `python tests/compared.py > docs/compared.md`."""

import sys
from datetime import UTC, datetime

import torch
from peers.compare import compare
from peers.page import page
from peers.table import PEERS
from peers.trajectories import TRAININGS, run


def main() -> int:
    """Print the page; 1 if something differs, which is printed on stderr."""
    outcomes = [(peer, compare(peer)) for peer in PEERS]
    faults = [f"{peer}: {fault}" for peer, outcome in outcomes for fault in outcome.faults]
    for fault in faults:
        print(fault, file=sys.stderr)
    differences = {name: (run(training), training.limit) for name, training in TRAININGS.items()}
    version = torch.__version__.partition("+")[0]
    print(page(version, datetime.now(UTC).date().isoformat(), outcomes, differences), end="")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
