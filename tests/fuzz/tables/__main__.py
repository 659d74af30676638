"""Try many random tables from every source. `--start SEED --count 1` repeats the fault of a seed."""

from __future__ import annotations

import logging

from fuzz import campaign
from fuzz.tables.judge import tried


def main() -> None:
    """Try the seeds; exit with 1 if there is a fault."""
    parser = campaign.options(__doc__ or "")
    campaign.quiet()
    logging.disable(logging.WARNING)
    raise SystemExit(bool(campaign.run(tried, parser.parse_args())))


if __name__ == "__main__":
    main()
