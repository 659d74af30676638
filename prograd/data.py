"""Rows for programs: samples, packed sources, arrays, and decoded predictions.

    import prograd

    prograd.data.sample("digits", "digits.safetensors")
    prograd.data.pack("people.csv", "rows.safetensors", classes=["species"], split={"train": 0.8, "test": 0.2})
    prograd.data.write("rows.safetensors", {"x": x, "label": label}, splits={"train": range(800)})
    x = prograd.data.encode({"age": [31, 52]}, "rows.safetensors")
    prograd.data.decode([0, 2], "species", "rows.safetensors")

docs/data.md describes the options of `pack`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, overload

import numpy as np

from prograd.found_packages import require_visible

require_visible("compiler")

from compiler.data.options import PackOptions, options_of
from compiler.data.pack import packed, packed_like
from compiler.data.write import write as write
from prograd_proto.argument_kinds import with_kinds
from prograd_proto.ragged_names import OFFSETS
from prograd_proto.spelling import module_getattr
from registry import Value, ops
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.files.output import write_output
from runtime.memory.shortage import limited_by_memory
from runtime.rows.encoding.encoding import Encoding

Path_ = str | os.PathLike[str]

_SAMPLES: Final = {"digits": "digits.safetensors"}
"""Files of samples, in this package when it is installed, and in the examples of a clone."""


@with_kinds(UsageError)
def sample(name: str, path: Path_, *, force: bool = False) -> None:
    """Write rows that come with prograd; an identical file at the path is left as it is.

    Args:
        name: "digits": 1,797 handwritten digits by E. Alpaydin and C. Kaynak (UCI, 1998, CC BY 4.0), as `image`,
            uint8 [8, 8, 1] from 0 to 16, and `label`, int64; two thirds are the split `train`, one `test`.
        path: path of the file, as in "digits.safetensors".
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


@with_kinds(UsageError)
@limited_by_memory
def pack(source: object, path: Path_, *, like: Path_ | None = None, force: bool = False, **options: Any) -> None:
    """Write a source as a file of rows, with its encoding in the header.

    Args:
        source: the path of a .csv, .tsv, .parquet, .npy, .npz or .txt file or of a folder of images; a frame of pandas;
            or columns by name.
        path: path of the file, as in "rows.safetensors".
        like: another packed file; columns are encoded as in that file.
        force: replace an existing file.
        options: see `compiler.data.options.PackOptions`, as classes=["species"] or split={"train": 0.8, "test": 0.2}.

    Raises UsageError for options that do not fit the source, DataError for a source that cannot be read or encoded.
    """
    asked = options_of(options)
    found = packed(source, asked) if like is None else packed_like(source, Encoding.of_file(Path(like)), asked)
    write(path, found.arrays, splits=found.splits, metadata=found.encoding.metadata, force=force)


@with_kinds(UsageError)
@limited_by_memory
def encode(source: object, like: Path_) -> dict[str, Any]:
    """Return rows as arrays for `run.predict`, encoded as in a packed file, for the columns that they have.

    Rows of unequal length are a list of arrays.
    """
    arrays = packed_like(source, Encoding.of_file(Path(like)), PackOptions()).arrays
    unequal = [name for name in arrays if name + OFFSETS in arrays]
    return arrays | {name: np.split(arrays[name], arrays.pop(name + OFFSETS)[1:-1]) for name in unequal}


@overload
def decode(numbers: Value, column: str, like: Path_) -> Value: ...  # pyright: ignore[reportOverlappingOverload]: a tensor is an object, too


@overload
def decode(numbers: object, column: str, like: Path_) -> Array: ...


@with_kinds(UsageError)
@limited_by_memory
def decode(numbers: object, column: str, like: Path_) -> Array | Value:
    """Return the values of encoded numbers of a column of a packed file: texts for classes, else the numbers.

    Numbers that are a tensor of a program are decoded by operations, for metrics in the units of the column.

    Raises DataError for an unknown column, or a number that stands for no value; UsageError for a tensor of a column
    that has no numbers, or their quantiles.
    """
    encoding = Encoding.of_file(Path(like))
    if not isinstance(numbers, Value):
        return encoding.decode(column, np.asarray(numbers))
    found = encoding.column(column)
    if found.kind not in ("number", "whole") or found.transform == "quantile":
        what = "quantiles" if found.transform else {"class": "classes", "text": "texts", "date": "dates"}[found.kind]
        raise UsageError(f"decode: {column!r} has {what}, and a program decodes numbers, scaled or as logarithms")
    wide = numbers if found.mean is None or found.deviation is None else numbers * found.deviation + found.mean
    return ops.expm1(wide) if found.transform == "log" else wide


def __dir__() -> list[str]:
    return ["decode", "encode", "pack", "sample", "write"]


__getattr__ = module_getattr("prograd.data", __dir__())
