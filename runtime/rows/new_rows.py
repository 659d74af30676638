"""New rows of a table or of images as arrays, encoded as the program's own were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.memory.limit import MemoryLimit
from runtime.rows.encoding.row_errors import original_rows
from runtime.rows.tables.image_files import image_paths, images_like
from runtime.rows.tables.read_table import read_table

if TYPE_CHECKING:
    from runtime.rows.encoding.encoding import Encoding

LABEL: Final = "label"
"""Name of the column of classes that the folders of images are, as packing calls it."""


def arrays_of_table(path: Path, encoding: Encoding, keys: Sequence[str], memory: MemoryLimit) -> dict[str, Array]:
    """Return the arrays of these keys for all rows of a table; errors name the line or the row.

    Raises DataError for a table that cannot be read or encoded, ResourceLimit if its rows do not fit.
    """
    table, lines, in_lines = read_table(path, memory)
    try:
        memory.require(encoding.text_bytes(table, keys), f"the rows of {path}")
        with original_rows(lines, lines=in_lines):
            arrays = encoding.encode(table, keys)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    for array in arrays.values():
        memory.take(array.nbytes, f"the rows of {path}")
        memory.note(array)
    return arrays


def arrays_of_images(path: Path, encoding: Encoding, keys: Sequence[str], memory: MemoryLimit) -> dict[str, Array]:
    """Return the arrays of these keys for an image, or for those of a folder, whose folders are the label.

    Raises DataError for images that cannot be read or unlike those that were packed, or for another key, ResourceLimit
    if they do not fit.
    """
    paths = image_paths(path)
    found: dict[str, Array] = {}
    for key in keys:
        if key in encoding.images:
            found[key] = images_like(paths, encoding.images[key], memory)
        elif key == LABEL and path.is_dir() and all(image.parent != path for image in paths):
            folders = np.empty(len(paths), object)
            folders[:] = [image.relative_to(path).parts[0] for image in paths]
            found |= encoding.encode({LABEL: folders}, [key])
        else:
            what = f"has images in no folder of a class, and {key!r} is read too" if key == LABEL else f"has no {key!r}"
            raise DataError(f"{path}: it {what}; only predictions take images alone: --entry predict")
    return found
