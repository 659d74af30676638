"""What a program says of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from prograd_proto import program_pb2 as pb
from registry.errors import OpError
from registry.spelling import closest

_FORMATS = {".safetensors": pb.DATA_FORMAT_SAFETENSORS, ".npz": pb.DATA_FORMAT_NPZ}
_REMAINDERS: dict[str, pb.Remainder] = {"drop": pb.REMAINDER_DROP, "exact": pb.REMAINDER_EXACT}


def data_desc(
    file: str,
    feeds: Sequence[str],
    columns: Mapping[str, str],
    splits: Mapping[str, str | slice],
    *,
    shuffle: bool,
    remainder: str,
) -> pb.DataDesc:
    """The message of `Program.data`, for a program with these feeds; raises OpError for what it cannot say."""
    path = PurePosixPath(file)
    if path.suffix not in _FORMATS:
        raise OpError(f"data: {file!r} is neither a .safetensors nor a .npz file")
    if path.is_absolute() or ".." in path.parts or "\\" in file:
        raise OpError(f"data: {file!r} leaves the program's folder; put the file beside the program")
    if remainder not in _REMAINDERS:
        raise OpError(f"data: remainder={remainder!r} is not one of {', '.join(_REMAINDERS)}")
    for feed in columns:
        if feed not in feeds:
            raise OpError(f"data: there is no input {feed!r}{closest(feed, feeds)}")
    return pb.DataDesc(
        file=str(path),
        format=_FORMATS[path.suffix],
        columns=[pb.ColumnDesc(feed=feed, key=columns.get(feed, feed)) for feed in feeds],
        splits=[_split(name, selection) for name, selection in splits.items()],
        shuffle=shuffle,
        remainder=_REMAINDERS[remainder],
    )


def _split(name: str, selection: str | slice) -> pb.SplitDesc:
    if isinstance(selection, str):
        return pb.SplitDesc(name=name, key=selection)
    start, stop, stride = selection.start or 0, selection.stop or 0, selection.step or 1
    if min(start, stop) < 0 or stride < 1:
        raise OpError(f"data: the split {name!r} counts rows from the front, forwards")
    return pb.SplitDesc(name=name, rows=pb.RowRange(start=start, stop=stop, stride=stride))
