"""The messages about a program's rows and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from compiler.build.whole_numbers import require_whole
from compiler.train.plateaus import number_desc
from prograd_proto import program_pb2 as pb
from prograd_proto.better import Best, best_by_name
from prograd_proto.settings import Interval
from prograd_proto.spelling import closest
from registry import Value
from registry.errors import OpError
from registry.settings import Number

_FORMATS = {".safetensors": pb.DATA_FORMAT_SAFETENSORS, ".npz": pb.DATA_FORMAT_NPZ}
_DIRECTIONS: dict[str, pb.Direction] = {"min": pb.DIRECTION_MIN, "max": pb.DIRECTION_MAX}
_REMAINDERS: dict[str, pb.Remainder] = {
    "drop": pb.REMAINDER_DROP,
    "exact": pb.REMAINDER_EXACT,
    "partial": pb.REMAINDER_PARTIAL,
}


def data_desc(
    file: str,
    feeds: Sequence[str],
    columns: Mapping[str, str],
    splits: Mapping[str, str | slice],
    *,
    shuffle: bool | int,
    remainder: str,
) -> pb.DataDesc:
    """Return the message of `Program.data` for these feeds; raise OpError for invalid arguments."""
    path = PurePosixPath(file)
    if is_outside(file):
        path = PurePosixPath(path.name)
    if path.suffix not in _FORMATS:
        raise OpError(f"data: {file!r} is neither a .safetensors nor a .npz file; data.pack makes one of a table")
    if "\\" in file:
        raise OpError(f"data: {file!r} has a backslash; write / between the names of folders")
    if remainder not in _REMAINDERS:
        raise OpError(f"data: remainder={remainder!r} is not one of {', '.join(_REMAINDERS)}")
    if not isinstance(shuffle, bool):
        require_whole("data", least=1, shuffle=shuffle)
    for feed in columns:
        if feed not in feeds:
            raise OpError(f"data: there is no input {feed!r}{closest(feed, feeds)}")
    return pb.DataDesc(
        file=str(path),
        format=_FORMATS[path.suffix],
        columns=[pb.ColumnDesc(feed=feed, key=columns.get(feed, feed)) for feed in feeds],
        splits=[_split(name, selection) for name, selection in splits.items()],
        shuffle=bool(shuffle),
        shuffle_rows=0 if isinstance(shuffle, bool) else shuffle,
        remainder=_REMAINDERS[remainder],
    )


def is_outside(file: str) -> bool:
    """Return True for a path that leads out of the folder of the program; the file has its last name only."""
    path = PurePosixPath(file)
    return path.is_absolute() or ".." in path.parts


def run_desc(
    epochs: int,
    split: str,
    evaluate: str | None,
    *,
    every: int,
    keep_best: str | None,
    best: str | None,
    stop_after: int | Value,
    min_delta: Number = 0.0,
    restore_best: bool = True,
    best_checkpoints: int = 0,
) -> pb.RunDesc:
    """Return the message of `Program.training`; `settle_best` adds the direction if `best` is None.

    Raises OpError for invalid arguments.
    """
    if best not in (None, *_DIRECTIONS):
        raise OpError(f"training: best={best!r} is neither 'min' nor 'max'")
    patience, setting = _require_stopping(epochs, every, evaluate, keep_best, stop_after)
    require_whole("training", least=0, best_checkpoints=best_checkpoints)
    if keep_best is None and (best_checkpoints or not restore_best):
        raise OpError("training: best_checkpoints and restore_best need the metric of the best; give keep_best=")
    run = pb.RunDesc(
        entry="train",
        epochs=epochs,
        split=split,
        stop_after=patience,
        stop_after_setting=setting,
        keep_last=not restore_best,
        best_checkpoints=best_checkpoints,
    )
    if isinstance(min_delta, Value) or min_delta:
        run.min_delta.CopyFrom(number_desc("training: min_delta", min_delta, Interval(least=0.0)))
        if not (patience or setting):
            raise OpError("training: min_delta is the improvement that stop_after asks for; give stop_after=")
    if evaluate is not None:
        run.evaluate.CopyFrom(pb.EvaluateDesc(entry="evaluate", split=evaluate, every=every))
    if keep_best is not None:
        direction = pb.DIRECTION_UNSPECIFIED if best is None else _DIRECTIONS[best]
        run.keep_best.CopyFrom(pb.KeepBestDesc(metric=keep_best, direction=direction))
    return run


def _require_stopping(
    epochs: int, every: int, evaluate: str | None, keep_best: str | None, stop_after: int | Value
) -> tuple[int, str]:
    """Return the number of `stop_after` and its setting; raise OpError for arguments that do not go together."""
    patience, setting = _patience(stop_after)
    require_whole("training", epochs=epochs, every=every)
    require_whole("training", least=0, stop_after=patience)
    if evaluate is None and (keep_best is not None or patience or setting):
        raise OpError("training: keep_best and stop_after need a split to evaluate on; give evaluate=")
    if (patience or setting) and keep_best is None:
        raise OpError(f"training: stop_after={patience} evaluations without improvement of what; give keep_best=")
    return patience, setting


def _patience(stop_after: int | Value) -> tuple[int, str]:
    """Return the number of `stop_after` and the setting that stands in for it, "" for none."""
    if not isinstance(stop_after, Value):
        return stop_after, ""
    desc = number_desc("training: stop_after", stop_after, Interval(least=0.0), whole=True)
    return 0, desc.setting


def settle_best(run: pb.RunDesc, declared: Mapping[str, Best]) -> None:
    """Set the better direction of the metric that `keep_best` names, unless the run states it.

    `declared` has the directions of losses and metrics; the names of other metrics may tell theirs. Raises OpError if
    the direction is unknown.
    """
    keep = run.keep_best
    if not run.HasField("keep_best") or keep.direction != pb.DIRECTION_UNSPECIFIED:
        return
    best = declared.get(keep.metric) or best_by_name(keep.metric)
    if best is None:
        raise OpError(
            f"training: keep_best={keep.metric!r} does not say whether lower or higher values are better; "
            "give best='min' or best='max'"
        )
    keep.direction = _DIRECTIONS[best]


def _split(name: str, selection: str | slice) -> pb.SplitDesc:
    if isinstance(selection, str):
        return pb.SplitDesc(name=name, key=selection)
    if not isinstance(selection, slice):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise OpError(f"data: the split {name!r} is {selection!r}, neither a key of the file nor a slice of rows")
    start, stop, stride = (
        otherwise if given is None else given
        for given, otherwise in ((selection.start, 0), (selection.stop, 0), (selection.step, 1))
    )
    require_whole(f"data: the split {name!r}", least=None, start=start, stop=stop, step=stride)
    if min(start, stop) < 0 or stride < 1:
        raise OpError(f"data: the split {name!r} counts rows from the front, forwards")
    return pb.SplitDesc(name=name, rows=pb.RowRange(start=start, stop=stop, stride=stride))
