"""Rows for programs: some to begin with, those that people have, arrays, and numbers given back as what they stand for.

    import prograd

    prograd.data.sample("digits", "digits.safetensors")
    prograd.data.pack("people.csv", "rows.safetensors", classes=["species"], split={"train": 0.8, "test": 0.2})
    prograd.data.write("rows.safetensors", {"x": x, "label": label}, splits={"train": range(800)})
    x = prograd.data.encode({"age": [31, 52]}, "rows.safetensors")
    prograd.data.decode([0, 2], "species", "rows.safetensors")

docs/data.md has what can be asked of `pack`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np

from compiler.data.options import PackOptions, options_of
from compiler.data.pack import packed, packed_like
from compiler.data.write import write as write
from prograd_proto.ragged_names import OFFSETS
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.files.output import write_output
from runtime.rows.encoding.encoding import Encoding

Path_ = str | os.PathLike[str]

_SAMPLES: Final = {"digits": "digits.safetensors"}
"""Of this package when it is installed, and of the examples in a clone."""


def sample(name: str, path: Path_, *, force: bool = False) -> None:
    """Write rows that come with prograd. If the very same file is there already, that is well.

    Args:
        name: "digits": 1,797 handwritten digits by E. Alpaydin and C. Kaynak (UCI, 1998, CC BY 4.0), as `image`,
            uint8 [8, 8, 1] from 0 to 16, and `label`, int64; two thirds are the split `train`, one `test`.
        path: of the file, as in "digits.safetensors".
        force: replace another file that is there.
    """
    if name not in _SAMPLES:
        raise UsageError(f"there are no rows {name!r}; there are {', '.join(_SAMPLES)}")
    places = (Path(__file__).parent, Path(__file__).parents[1] / "examples")
    source = next(place / _SAMPLES[name] for place in places if (place / _SAMPLES[name]).exists())
    content = source.read_bytes()
    target = Path(path)
    if force or not target.is_file() or target.read_bytes() != content:
        write_output(target, content, force=force)


def pack(source: object, path: Path_, *, like: Path_ | None = None, force: bool = False, **options: Any) -> None:
    """Write a source as a file of rows, with how it was made in its header.

    Args:
        source: the path of a .csv, .tsv, .parquet, .npy, .npz or .txt file or of a folder of images; a frame of pandas;
            or columns by name.
        path: of the file, as in "rows.safetensors".
        like: another packed file; columns are encoded as its columns were.
        force: replace a file that is there.
        options: see `compiler.data.options.PackOptions`, as classes=["species"] or split={"train": 0.8, "test": 0.2}.

    Raises UsageError for options that do not fit the source, DataError for what cannot be read or encoded.
    """
    asked = options_of(options)
    found = packed(source, asked) if like is None else packed_like(source, Encoding.of_file(Path(like)), asked)
    write(path, found.arrays, splits=found.splits, metadata=found.encoding.metadata, force=force)


def encode(source: object, like: Path_) -> dict[str, Any]:
    """Rows as arrays for `run.predict`, encoded as those of a packed file were, as far as they have its columns.

    Rows of unequal length are a list of arrays.
    """
    arrays = packed_like(source, Encoding.of_file(Path(like)), PackOptions()).arrays
    unequal = [name for name in arrays if name + OFFSETS in arrays]
    return arrays | {name: np.split(arrays[name], arrays.pop(name + OFFSETS)[1:-1]) for name in unequal}


def decode(numbers: object, column: str, like: Path_) -> Array:
    """The values that numbers stand for in a column of a packed file: texts for classes, else numbers as they were."""
    return Encoding.of_file(Path(like)).decode(column, np.asarray(numbers))


def __getattr__(name: str) -> object:
    from prograd_proto.spelling import no_name

    raise no_name("prograd.data", name, __dir__())


def __dir__() -> list[str]:
    return ["decode", "encode", "pack", "sample", "write"]
