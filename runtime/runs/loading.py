"""Parameters and buffers from a file of tensors: all of them or some, by its names or by those of PyTorch.

1. Slots, counters, the totals of metrics and the checkpoint's best evaluation are left out.
2. The other tensors get the names that the rules give them.
3. Every requested state finds its tensor.
4. Each tensor is checked, and only then is any state written. A state that the file leaves out gets the value of the
   program's own file, which must have the hash that the file names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast, get_args

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import FLOATS, HALVES, NUMBERS
from prograd_proto.spelling import closest
from prograd_proto.states import is_range
from prograd_proto.wording import as_asked
from runtime.conversion import converted
from runtime.dtypes import Array, array_type
from runtime.errors import DataError, UsageError
from runtime.runs.checkpoints.checkpoint import LEFT_OUT, Checkpoint, is_of_run
from runtime.runs.states import States, digest_of
from runtime.runs.torch_names import IGNORED, Source, torch_sources

Layout = Literal["prograd", "torch"]
PICKLES: Final = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin")
"""Suffixes of files that PyTorch writes as pickles."""

EXACT: Final = frozenset(NUMBERS[name] for name in ("bool", "uint8", "int32", "int64"))
"""Dtypes of buffers whose values an import may compute with."""

SHOWN = 3
"""Number of names that a sentence lists before it counts."""


class Loaded(NamedTuple):
    """The result of loading a file; as text, a sentence.

    Attributes:
        loaded: tensor of the file by state.
        left: tensors of the file that no state took.
        kept: parameters and buffers that keep their earlier values; averages that follow a loaded parameter do not.
    """

    loaded: dict[str, str]
    left: list[str]
    kept: list[str]

    def __str__(self) -> str:
        parts = [f"loaded {_listed(self.loaded)}"]
        parts += [f"left {_listed(self.left)} of the file"] if self.left else []
        parts += [f"kept {_listed(self.kept)} as before"] if self.kept else []
        return ", ".join(parts)


def load_parameters(
    checkpoint: Checkpoint,
    program: pb.ProgramDesc,
    states: States,
    only: Sequence[str],
    rename: Mapping[str, str] | None,
    layout: Layout,
) -> Loaded:
    """Copy parameters and buffers of a file into the states, and leave slots and counters as they are.

    Args:
        checkpoint: the file.
        program: tells which states are parameters and buffers.
        states: the states that are written.
        only: patterns of the states to load, as "trunk.*"; by default all, and then the file must have no others. The
            ranges of quantisation-aware training stay as they are if the file has none.
        rename: rules for the names of the file's tensors: "old.": "new." replaces the beginning old. by new., and
            "a*b": "c*d" replaces both ends. The first rule that fits counts.
        layout: "torch" finds tensors by the names that PyTorch's modules give them, transposes their axes, and widens
            16-bit floats for states of float32 and float64 without rounding.

    Raises:
        DataError: a requested state has no tensor, or one of another type; or a tensor is left and `only` is not given.
        UsageError: a pattern or a rule fits nothing.
    """
    path, tensors, about = checkpoint
    digests: dict[str, str] = about.get(LEFT_OUT, {})
    if layout not in get_args(Layout):
        raise UsageError(f"layout={layout!r} is not one of {', '.join(get_args(Layout))}")
    mine = [s.name for s in program.states if s.kind in (pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER)]
    passing = {state.name for state in program.states if state.lifespan == pb.LIFESPAN_EPOCH}
    mine = [name for name in mine if name in states.arrays and name not in passing]
    left_out = {str(name) for key in ("slots", "counters", "epoch") for name in about.get(key, ())}
    others = (states.arrays.keys() | left_out) - {*mine}
    names = [name for name in [*tensors, *digests] if name not in others and not is_of_run(name)]
    _require_mapping(rename)
    there = _renamed(path, names, rename or {})
    imported = {state.name: state.imported for state in program.states if state.HasField("imported")}
    known = [name for name in mine if name in imported or name in there]  # a module has no others
    wanted = _matching(mine, only) if only else known if imported and layout == "torch" else mine
    has_ranges = any(is_range(name) for name in there)  # else a run in floats wrote the file, and ranges are learned
    wanted = [name for name in wanted if has_ranges or not is_range(name)]
    sources = {name: _source(path, name, there, layout, imported.get(name)) for name in wanted}
    taken = {there[source.tensor] for source in sources.values()}
    left = [tensor for tensor in there.values() if tensor not in taken]
    if layout == "torch":
        tied = {name for tensor in imported.values() for name in tensor.names}
        left = [name for name in left if not name.endswith(IGNORED) and name not in tied]
    if left and not only:
        raise DataError(f"{path}: the tensor {left[0]!r} is no state of the program{closest(left[0], mine)}")
    own = {name: tensor for name, s in sources.items() if (tensor := there[s.tensor]) in digests}
    _require_own(path, own, digests, states)
    arrays = {n: s.arranged(tensors[there[s.tensor]]) for n, s in sources.items() if n not in own}
    if layout == "torch":
        arrays = {name: _widened(array, array_type(states.arrays[name]).dtype) for name, array in arrays.items()}
    for name, array in arrays.items():
        _require_type(path, there[sources[name].tensor], name, array, states.arrays[name])
    for name in _folded(program).intersection(arrays):
        _require_same(path, there[sources[name].tensor], arrays[name], states.arrays[name])
    states.restore(own)
    followed = states.give(arrays)
    loaded = {name: there[source.tensor] for name, source in sources.items()}
    return Loaded(loaded, left, [name for name in mine if name not in {*loaded, *followed}])


def _require_own(path: Path, own: Mapping[str, str], digests: Mapping[str, str], states: States) -> None:
    """Raise DataError unless states that a file leaves out have in the program's files what the file was made with."""
    originals = states.originals(own)
    known = states.digests()
    for name, tensor in own.items():
        if name not in originals or (known.get(name) or digest_of(originals[name])) != digests[tensor]:
            raise DataError(
                f"{path}: the file leaves out {tensor!r}, which stayed as in the files of its program, and the state "
                f"{name!r} of this program has no such value in its own; load it into a program of the same weights"
            )


def _require_mapping(rename: Any) -> None:
    """Raise UsageError unless names are mapped to names."""
    rules = cast(Mapping[Any, Any], rename if isinstance(rename, Mapping) else {})
    is_one = rename is None or isinstance(rename, Mapping)
    if not is_one or not all(isinstance(word, str) for word in (*rules, *rules.values())):
        raise UsageError(f"rename={rename!r} is not a mapping of names to names, as {{'old.': 'new.'}} is")


def _renamed(path: Path, names: Iterable[str], rules: Mapping[str, str]) -> dict[str, str]:
    """Return the tensors of a file by the names that the rules give them."""
    for old, new in rules.items():
        if old.count("*") != new.count("*") or old.count("*") > 1 or not old:
            raise UsageError(
                f"rename: {old!r} to {new!r}; either both have one *, or neither has, and the first is not empty"
            )
    found: dict[str, str] = {}
    unused = dict.fromkeys(rules)
    for name in names:
        rule = next((old for old in rules if _fits(old, name)), None)
        new = name if rule is None else _replaced(rule, rules[rule], name)
        unused.pop(rule or "", None)
        if new in found:
            raise DataError(f"{path}: the tensors {found[new]!r} and {name!r} would both be called {new!r}")
        found[new] = name
    if unused:
        raise UsageError(f"rename: no tensor of {path} fits {next(iter(unused))!r}{closest(next(iter(unused)), found)}")
    return found


def _fits(old: str, name: str) -> bool:
    start, _, end = old.partition("*")
    return name.startswith(start) and name.endswith(end) and len(name) >= len(start) + len(end)


def _replaced(old: str, new: str, name: str) -> str:
    (start, _, end), (first, _, last) = old.partition("*"), new.partition("*")
    return f"{first}{name[len(start) : len(name) - len(end)]}{last}"


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that match any of the patterns."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"only: no parameter and no buffer matches {pattern!r}{closest(pattern, names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _source(
    path: Path, state: str, there: Collection[str], layout: Layout, imported: pb.ImportedTensor | None
) -> Source:
    """Return the source of a state: under its own name, or under that of PyTorch or of the module it came from."""
    if imported is not None and layout == "torch":
        tried = [Source(name, turned=False, axes=tuple(imported.axes)) for name in imported.names]
    else:
        tried = [Source(state, turned=False), *(torch_sources(state) if layout == "torch" else ())]
    found = next((source for source in tried if source.tensor in there), None)
    if found is None:
        other = f", nor {tried[1].tensor!r}" if len(tried) > 1 else ""
        how = as_asked("--only loads some, --rename other names", "only= loads some, rename= other names")
        raise DataError(f"{path}: there is no tensor {state!r}{other}, which the program has as a state; {how}")
    return found


def _widened(array: Array, dtype: str) -> Array:
    return converted(array, dtype) if array_type(array).dtype in HALVES and dtype in FLOATS else array


def _folded(program: pb.ProgramDesc) -> set[str]:
    """Return the names of imported buffers that no block has: the import computed with their values."""
    there = {parameter.state for block in program.blocks for parameter in block.parameters}
    return {
        state.name
        for state in program.states
        if state.HasField("imported") and state.dtype in EXACT and state.name not in there
    }


def _require_same(path: Path, tensor: str, array: Array, wanted: Array) -> None:
    if not np.array_equal(array, wanted):
        raise DataError(
            f"{path}: the tensor {tensor!r} has other elements than the module had when it was imported, and the "
            "program was computed with those; import the module again with these elements"
        )


def _require_type(path: Path, tensor: str, state: str, array: Array, wanted: Array) -> None:
    if (array.dtype, array.shape) == (wanted.dtype, wanted.shape):
        return
    what = "the program's state" if tensor == state else f"the state {state!r}, which it is for,"
    raise DataError(f"{path}: the tensor {tensor!r} is {array_type(array)}, {what} is {array_type(wanted)}")


def _listed(names: Collection[str]) -> str:
    """Return the number of names, and the first of them."""
    more = len(names) - SHOWN
    return f"{len(names)} ({', '.join([*names][:SHOWN])}{f' and {more} more' if more > 0 else ''})"


def require_no_pickle(path: Path) -> None:
    """Raise DataError for a file of PyTorch's own format, whose pickles may run code and are never read."""
    if path.suffix.lower() in PICKLES:
        inner = "['state_dict']" if path.suffix.lower() == ".ckpt" else ""  # of Lightning
        other = path.with_suffix(".safetensors").name
        raise DataError(
            f"{path}: PyTorch's own files are pickles, which may run code and are never read; write the weights alone "
            f"by safetensors.torch.save_file(torch.load({path.name!r}, weights_only=True){inner}, {other!r}), "
            f"and load {other} with layout torch"
        )
