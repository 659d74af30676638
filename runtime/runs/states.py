"""The states of a program: named arrays that outlive a step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prograd_proto import TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.identity import state_sha256
from prograd_proto.lifespans import held
from runtime.conversion import converted
from runtime.dtypes import Array, array_type, as_little
from runtime.errors import DataError, ResourceLimit
from runtime.files.program_files import verified
from runtime.files.tensor_files import read_arrays
from runtime.memory.aligned import aligned_array, aligned_bytes, view
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.one_op import call_of, scratch_bytes
from runtime.placement.alignment import aligned
from runtime.runs.state_locks import StateLocks

if TYPE_CHECKING:
    from runtime.ranks.pieces import Pieces


class States:
    """Every state of a program by name.

    `arrays` are the memory that steps update. `passing` are the names of the states that last an epoch. `sums` are the
    names of the slots in which gradients accumulate for an update over several steps. `locks` is the lock on the
    states: a thread that touches an array holds it. `were_given` tells that values were loaded or set, and `is_told`
    that the user was warned of those that were not. A file of initial values that cannot be read is an error when one
    of them is used, so a caller that replaces them all needs no file. `types` are the types of whole states. `pieces`
    are the states that are cut among the ranks of a run, whose arrays are this rank's elements; None if there are none.
    """

    def __init__(
        self, program: pb.ProgramDesc, folder: Path, memory: MemoryLimit = NO_LIMIT, pieces: Pieces | None = None
    ) -> None:
        """Allocate the states.

        `memory` is asked for the temporaries of initial values, as the states are counted already.
        """
        self._held = held(program)
        self.types = {state.name: type_of(state) for state in self._held}
        self.pieces = pieces
        self.arrays: dict[str, Array] = _beside_each_other(_own_types(self.types, pieces))
        self.nbytes = sum(array.nbytes for array in self.arrays.values())
        self.passing = frozenset(s.name for s in self._held if s.lifespan == pb.LIFESPAN_EPOCH)
        self.sums = tuple(s.name for s in self._held if s.slot == "gradient")
        self.locks = StateLocks()
        self.were_given = False
        self.is_told = False
        self._program = program
        self._folder = folder
        self.brought: Mapping[str, Mapping[str, Array]] = {}  # by path and key, in place of files beside the program
        self._memory = memory
        self._outside: dict[str, Array] = {}  # initial values from files
        self._unread: dict[str, str] = {}  # by state, the reason why its file gave none

    def aside(self) -> States:
        """Return the same states, but with separate memory for those that last an epoch."""
        other = copy(self)
        own = {name: aligned_array(array_type(self.arrays[name])) for name in sorted(self.passing)}
        other.arrays = self.arrays | own
        return other

    def initialise(self, seed: int | None = None) -> None:
        """Give every state its initial value; `seed` replaces the program's. For values from files see `require`."""
        self._read_external()
        self.arrays["seed"][...] = self._program.seed if seed is None else seed
        for state in self._held:
            if state.name != "seed":
                self._initialise(state)
        self._outside = {name: tensor for name, tensor in self._outside.items() if name in self.passing}

    def require(self, names: Collection[str] | None = None) -> None:
        """Raise DataError if one of these states, or of all, has no value: it was not set and its file gave none."""
        for name, why in self._unread.items():
            if names is None or name in names:
                raise DataError(why)

    @property
    def without_value(self) -> Collection[str]:
        """Return the states that `require` rejects."""
        return self._unread.keys()

    def are_given(self, names: Collection[str]) -> None:
        """Record that these states were loaded or set.

        States that last an epoch still start the next from their file.
        """
        self.were_given = True
        for name in {*names} - self.passing:
            self._unread.pop(name, None)

    def reset_epoch(self) -> None:
        """Give the states that last an epoch their initial value again."""
        for state in self._held:
            if state.name in self.passing:
                self._initialise(state)

    def sha256(self) -> str:
        """Return the hash of all states; see docs/format.md."""
        with self.locks.shared():
            self.require()
            return tensors_sha256(self.whole(), self.types)

    def whole(self) -> Mapping[str, Array]:
        """Return the whole states; all ranks of a run read them together, in one order."""
        return self.joined(self.arrays)

    def joined(self, arrays: Mapping[str, Array], prefix: str = "") -> Mapping[str, Array]:
        """Return whole arrays for some that are like the states, with a prefix before their names; see `whole`."""
        if self.pieces is None:
            return {prefix + name: array for name, array in arrays.items()}
        from runtime.ranks.pieces import Gathered  # few runs have several processes

        return Gathered(arrays, self.pieces, prefix)

    def part(self, name: str, whole: Array) -> Array:
        """Return the elements of a whole state that the array of this process has."""
        is_cut = self.pieces is not None and name in self.pieces.types
        return self.pieces.piece(name, whole) if self.pieces is not None and is_cut else whole

    def _initialise(self, state: pb.StateDesc) -> None:
        array = self.arrays[state.name]
        match state.WhichOneof("initial"):
            case "op":
                type = type_of(state)
                if type == type.wide == array_type(array):
                    self._make(state.op, array)
                    return
                with self._memory.lent(2 * type.wide.nbytes, "an initial value"):
                    made = aligned_array(type.wide)
                    self._make(state.op, made)
                    np.copyto(array, self.part(state.name, converted(made, type.dtype)))
            case "external":
                found = self._outside.get(state.name)
                array[...] = 0 if found is None else self.part(state.name, found)
            case _:
                array[...] = 0

    def _make(self, op: pb.OpDesc, out: Array) -> None:
        attributes = attributes_of(op)
        inputs = [self._at_start(name) for name in op.inputs]
        nbytes = scratch_bytes(op.type, attributes, inputs)
        with self._memory.lent(nbytes, "an initial value"), np.errstate(all="ignore"):  # as in a step
            call_of(op.type, attributes, inputs, [out], random_stream=op.random_stream)()

    def _at_start(self, name: str) -> Array:
        """Return the operand of an initial op, one of the counters; initial values are those before the first step."""
        return self.arrays[name] if name == "seed" else np.zeros((), np.int64)

    def _read_external(self) -> None:
        """Read the tensors of all files now, because a later epoch may find other files.

        Each file is verified before its content is used. The reason why one cannot be read is kept for `require`.
        Values are read into the memory of their states where the types are equal, so that they are not there twice.
        """
        states = [s for s in self._held if s.WhichOneof("initial") == "external"]
        for path in sorted({state.external.path for state in states}):
            ours = [state for state in states if state.external.path == path]
            if path in self.brought:
                values = self.brought[path]
                self._outside |= {state.name: self._fitting(state, values[state.external.key]) for state in ours}
                continue
            try:
                into = {s.external.key: self.arrays[s.name] for s in ours if s.name not in self.passing}
                with verified(self._program, self._folder, path, self._memory) as reader:
                    keys = [state.external.key for state in ours]
                    tensors = read_arrays(self._folder / path, reader, keys, into=into)
                self._outside |= {state.name: self._fitting(state, tensors[state.external.key]) for state in ours}
            except DataError as error:
                self._unread |= {state.name: str(error) for state in ours}

    def _fitting(self, state: pb.StateDesc, tensor: Array) -> Array:
        path, key = self._folder / state.external.path, state.external.key
        found, wanted = array_type(tensor), type_of(state)
        if wanted not in (found, found.wide):
            raise DataError(f"{path}: {key!r} is {found}, the state {state.name!r} is {wanted}")
        return tensor if found == wanted else converted(tensor, wanted.dtype)


def _beside_each_other(types: Mapping[str, TensorType]) -> dict[str, Array]:
    """Return zeroed arrays in one range of memory, for which systems use large pages where it is long."""
    offsets = [0, *accumulate(aligned(type.nbytes) for type in types.values())]
    memory = aligned_bytes(offsets[-1])
    return {name: view(memory, at, type) for (name, type), at in zip(types.items(), offsets, strict=False)}


def tensors_sha256(tensors: Mapping[str, Array], types: Mapping[str, TensorType]) -> str:
    """Return the hash of arrays of these types; each is asked for once, in the order of the hash."""

    def elements(name: str) -> memoryview:
        return as_little(tensors[name]).reshape(-1).view(np.uint8).data

    return state_sha256((name, type.dtype, type.static_shape, partial(elements, name)) for name, type in types.items())


def _own_types(types: Mapping[str, TensorType], pieces: Pieces | None) -> Mapping[str, TensorType]:
    """Return the types of the arrays of this process."""
    if pieces is None:
        return types
    return {name: pieces.type(name) if name in pieces.types else type for name, type in types.items()}


def new_states(program: pb.ProgramDesc, folder: Path, memory: MemoryLimit, pieces: Pieces | None = None) -> States:
    """Return the states of a program, not yet initialised; raise ResourceLimit if they do not fit."""
    types = _own_types({state.name: type_of(state) for state in held(program)}, pieces)
    memory.take(sum(type.nbytes for type in types.values()), "the states")
    if pieces is not None:
        memory.take(pieces.largest_bytes, "one whole state, which checkpoints and hashes need,")
    try:
        return States(program, folder, memory, pieces)
    except MemoryError:
        raise ResourceLimit("the program's states need more memory than there is") from None
