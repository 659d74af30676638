"""What a program says of its rows, and of what executing it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from prograd_proto import program_pb2 as pb
from registry.errors import OpError
from registry.spelling import closest

_FORMATS = {".safetensors": pb.DATA_FORMAT_SAFETENSORS, ".npz": pb.DATA_FORMAT_NPZ}
_REMAINDERS: dict[str, pb.Remainder] = {"drop": pb.REMAINDER_DROP, "exact": pb.REMAINDER_EXACT}


def data_desc(
    file: str,
    *,
    feeds: Sequence[str],
    columns: Mapping[str, str] | None = None,
    splits: Mapping[str, str | slice] | None = None,
    shuffle: bool = False,
    remainder: Literal["drop", "exact"] = "drop",
) -> pb.DataDesc:
    """Where the rows come from.

    Args:
        file: a safetensors or npz file, by its path relative to the folder that the program is saved in.
        feeds: the program's inputs.
        columns: for each input the key in the file; its own name unless given. Axis 0 counts the rows.
        splits: for each split a key, of an int64 tensor of row numbers, or a slice of rows.
        shuffle: whether training takes the rows in another order each epoch.
        remainder: "drop" leaves out the rows that do not fill the last training step, "exact" refuses them.
    """
    path = PurePosixPath(file)
    if path.suffix not in _FORMATS:
        raise OpError(f"data: {file!r} is neither a .safetensors nor a .npz file")
    if path.is_absolute() or ".." in path.parts or "\\" in file:
        raise OpError(f"data: {file!r} leaves the program's folder; put the file beside the program")
    columns = dict(columns or {})
    for feed in columns:
        if feed not in feeds:
            raise OpError(f"data: there is no input {feed!r}{closest(feed, feeds)}")
    return pb.DataDesc(
        file=str(path),
        format=_FORMATS[path.suffix],
        columns=[pb.ColumnDesc(feed=feed, key=columns.get(feed, feed)) for feed in feeds],
        splits=[_split(name, selection) for name, selection in (splits or {}).items()],
        shuffle=shuffle,
        remainder=_REMAINDERS[remainder],
    )


def run_desc(
    epochs: int,
    *,
    split: str = "train",
    evaluate: str | None = None,
    every: int = 1,
    keep_best: str | None = None,
    best: Literal["min", "max"] = "max",
    stop_after: int = 0,
) -> pb.RunDesc:
    """What executing the file does.

    Args:
        epochs: how often training sees the rows.
        split: the rows to train on; all rows if the data has no split of that name and it is "train".
        evaluate: the split to evaluate on, if any.
        every: evaluate after every so many epochs.
        keep_best: the metric of the evaluation by which the best states are kept and given at the end.
        best: whether a higher or a lower metric is better.
        stop_after: stop after so many evaluations without improvement; 0 never stops early.
    """
    if epochs < 1 or every < 1 or stop_after < 0:
        raise OpError(
            f"run: epochs={epochs}, every={every}, stop_after={stop_after}; the first two start at 1, the last at 0"
        )
    if evaluate is None and (keep_best is not None or stop_after):
        raise OpError("run: keep_best and stop_after need a split to evaluate on; give evaluate=")
    run = pb.RunDesc(entry="train", epochs=epochs, split=split, stop_after=stop_after)
    if evaluate is not None:
        run.evaluate.CopyFrom(pb.EvaluateDesc(entry="evaluate", split=evaluate, every=every))
    if keep_best is not None:
        direction = pb.DIRECTION_MAX if best == "max" else pb.DIRECTION_MIN
        run.keep_best.CopyFrom(pb.KeepBestDesc(metric=keep_best, direction=direction))
    return run


def _split(name: str, selection: str | slice) -> pb.SplitDesc:
    if isinstance(selection, str):
        return pb.SplitDesc(name=name, key=selection)
    start, stop, stride = selection.start or 0, selection.stop or 0, selection.step or 1
    if min(start, stop) < 0 or stride < 1:
        raise OpError(f"data: the split {name!r} counts rows from the front, forwards")
    return pb.SplitDesc(name=name, rows=pb.RowRange(start=start, stop=stop, stride=stride))
