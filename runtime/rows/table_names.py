"""Names of files that are tables: their suffixes, behind which `.gz` may stand."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TABLES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq")
"""Suffixes of tables, whose rows are encoded as the program's own were."""

ZIPPED: Final = ".gz"
"""Suffix of compressed files."""


def is_table(path: Path) -> bool:
    """Return True if the suffix is that of a table."""
    return suffix_of(path) in TABLES


def suffix_of(path: Path) -> str:
    """Return the suffix that tells the format of a table, in lower case and without `.gz`: ".csv" for rows.csv.gz."""
    plain = path.with_suffix("") if path.suffix.lower() == ZIPPED else path
    return plain.suffix.lower()
