"""Names of files that are tables or images: their suffixes; `.gz` may stand behind those of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TEXTS: Final = (".txt", ".text")
"""Suffixes of tables with the one column `text`, a row for each line."""

TABLES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq", *TEXTS)
"""Suffixes of tables, whose rows are encoded as the program's own were."""

IMAGES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""Suffixes of images."""

SPREADSHEETS: Final = (".xlsx", ".xls", ".ods")
"""Suffixes of spreadsheets, which may have several tables, and texts around them."""

PACKED: Final = (".npy",)
"""Suffixes of files that become rows only when they are packed."""

OTHER_FORMS: Final = (*SPREADSHEETS, *PACKED, ".json", ".pkl", ".pickle", ".pt", ".h5", ".feather")
"""Suffixes of files that a run does not read; a file with any other suffix may be a safetensors file."""

ZIPPED: Final = ".gz"
"""Suffix of compressed files."""


def is_table(path: Path) -> bool:
    """Return True if the suffix is that of a table."""
    return suffix_of(path) in TABLES


def are_images(path: Path) -> bool:
    """Return True for a folder, whose images are meant, and for the suffix of an image."""
    return path.is_dir() or path.suffix.lower() in IMAGES


def suffix_of(path: Path) -> str:
    """Return the suffix that tells the format of a table, in lower case and without `.gz`: ".csv" for rows.csv.gz."""
    plain = path.with_suffix("") if path.suffix.lower() == ZIPPED else path
    return plain.suffix.lower()


def way_from(path: Path) -> str | None:
    """Return how to make a table of a file of another format; None for a format that is not known."""
    match path.suffix.lower():
        case suffix if suffix in SPREADSHEETS:
            return f"this is a spreadsheet; save the sheet with the rows as {path.stem}.csv"
        case ".json":
            return f"JSON is read in lines, an object for each row; write it so, as {path.stem}.jsonl"
        case _:
            return None
