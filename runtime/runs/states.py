"""The states of a program: named arrays that outlive a step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prograd_proto import TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.identity import state_sha256
from prograd_proto.states import held
from runtime.conversion import converted
from runtime.dtypes import Array, array_type, as_little
from runtime.errors import DataError, ResourceLimit
from runtime.memory.aligned import aligned_array, aligned_bytes, view
from runtime.memory.limit import NO_LIMIT, MemoryLimit
from runtime.one_op import call_of, scratch_bytes
from runtime.placement.alignment import aligned
from runtime.runs.state_locks import StateLocks
from runtime.runs.values_from_files import fitting, values_from_files

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
    `fixed` are the parameters, buffers and slots that no step updates, with values in the program's files, and
    `unchanged` those of them that have these values still. Their arrays cannot be written; `put` replaces a value.

    An average of a parameter, and the slot of an optimizer that remembers where it was, begin like the parameter. While
    they are equal to it, they follow the values that it is given.
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
        self._digests: dict[str, str] = {}
        self.fixed = _fixed(program, self._held) - self.passing - (set() if pieces is None else pieces.types.keys())
        self.unchanged: frozenset[str] = frozenset()
        self._followers = _followers(self._held)

    def aside(self) -> States:
        """Return the same states, but with separate memory for those that last an epoch."""
        other = copy(self)
        own = {name: aligned_array(array_type(self.arrays[name])) for name in sorted(self.passing)}
        other.arrays = self.arrays | own
        return other

    def initialise(self, seed: int | None = None) -> None:
        """Give every state its initial value; `seed` replaces the program's. For values from files see `require`."""
        self._set_writeable(self.unchanged, is_writeable=True)
        self._read_external()
        self.arrays["seed"][...] = self._program.seed if seed is None else seed
        for state in self._held:
            if state.name != "seed":
                self._initialise(state)
        self._set_writeable(self.unchanged, is_writeable=False)
        self._outside = {name: tensor for name, tensor in self._outside.items() if name in self.passing}

    def give(self, values: Mapping[str, Array]) -> list[str]:
        """Replace the values of states, and of those others that follow them; the caller has the exclusive lock.

        Returns:
            The states that followed.
        """
        followers = {
            other: name
            for name in values
            for other in self._followers.get(name, ())
            if other not in values and self._is_like(other, name)
        }
        for name, value in values.items():
            self.put(name, value)
        for other, name in followers.items():
            self.put(other, self.part(other, _in_dtype_of(self.arrays[other], self.arrays[name])))
            self._unread.pop(other, None)
        return [*followers]

    def put(self, name: str, value: Array) -> None:
        """Replace the value of a state alone; the caller has the exclusive lock."""
        if name in self.unchanged:
            if has_bits(self.arrays[name], value):
                return
            self._set_writeable([name], is_writeable=True)
            self.unchanged -= {name}
            self._digests.pop(name, None)
        np.copyto(self.arrays[name], value)

    def _is_like(self, follower: str, name: str) -> bool:
        """Return True if a state has the value of another one, perhaps before that was rounded to 16 bits."""
        value = self.arrays[name]
        return has_bits(_in_dtype_of(value, self.arrays[follower]), self.part(follower, value))

    def originals(self, names: Collection[str]) -> dict[str, Array]:
        """Return the values that states have in the program's files; those of other states are left out.

        Raises DataError if a file cannot be read.
        """
        replaced = [
            s for s in self._held
            if s.name in names and s.name not in self.unchanged and s.WhichOneof("initial") == "external"
        ]  # fmt: skip
        brought, others = self._brought(replaced)
        found, unread = values_from_files(self._program, self._folder, others, self._memory)
        for why in unread.values():
            raise DataError(why)
        return brought | found | {name: self.arrays[name] for name in names if name in self.unchanged}

    def restore(self, names: Collection[str]) -> None:
        """Give states the values that they have in the program's files, as `originals` does; see `put`."""
        for name, value in self.originals(names).items():
            self.put(name, value)
        self.unchanged |= self.fixed.intersection(names)
        self._set_writeable(self.unchanged, is_writeable=False)

    @property
    def changed_bytes(self) -> int:
        """The bytes of the states without the unchanged ones."""
        return self.nbytes - sum(self.arrays[name].nbytes for name in self.unchanged)

    def digests(self) -> dict[str, str]:
        """Return the hashes of the unchanged values, by state."""
        for name in self.unchanged - self._digests.keys():
            self._digests[name] = digest_of(self.arrays[name])
        return dict(sorted(self._digests.items()))

    def _set_writeable(self, names: Collection[str], *, is_writeable: bool) -> None:
        for name in names:
            self.arrays[name].flags.writeable = is_writeable

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

        The reason why one cannot be read is kept for `require`.
        """
        states = [s for s in self._held if s.WhichOneof("initial") == "external"]
        brought, others = self._brought(states)
        self._outside |= brought
        into = {name: array for name, array in self.arrays.items() if name not in self.passing}
        found, unread = values_from_files(self._program, self._folder, others, self._memory, into)
        self._outside |= found
        self._unread |= unread
        self.unchanged = self.fixed & found.keys()

    def _brought(self, states: Sequence[pb.StateDesc]) -> tuple[dict[str, Array], list[pb.StateDesc]]:
        """Return the values of states whose file is in memory, and the states whose file is not."""
        inside = [state for state in states if state.external.path in self.brought]
        found = {s.name: fitting(s, self.brought[s.external.path][s.external.key], self._folder) for s in inside}
        return found, [state for state in states if state.external.path not in self.brought]


def _fixed(program: pb.ProgramDesc, states: Sequence[pb.StateDesc]) -> frozenset[str]:
    """Return the states with values in files that no block updates; a run writes counters itself."""
    updated = {update.state for block in program.blocks for update in block.updates}
    outside = [s for s in states if s.WhichOneof("initial") == "external" and s.kind != pb.STATE_KIND_COUNTER]
    return frozenset(state.name for state in outside) - updated


def _in_dtype_of(other: Array, array: Array) -> Array:
    return array if array.dtype == other.dtype else converted(array, array_type(other).dtype)


def _followers(states: Sequence[pb.StateDesc]) -> dict[str, list[str]]:
    """Return the averages and the slots named slow that begin like a parameter, by the parameter."""
    found: dict[str, list[str]] = {}
    parameters = {state.name: state for state in states if state.kind == pb.STATE_KIND_PARAMETER}
    for state in states:
        name = state.slot_of if state.slot == "slow" else state.name.rpartition(".average")[0]
        if name in parameters and _begins_like(state, parameters[name]):
            found.setdefault(name, []).append(state.name)
    return found


def _begins_like(state: pb.StateDesc, other: pb.StateDesc) -> bool:
    """Return True if two states have one initial value."""
    one, two = pb.StateDesc(), pb.StateDesc()
    for short, whole in ((one, state), (two, other)):
        short.shape.CopyFrom(whole.shape)
        if whole.WhichOneof("initial") == "external":
            short.external.CopyFrom(whole.external)
        elif whole.WhichOneof("initial") == "op":
            short.op.CopyFrom(whole.op)
            short.op.outputs[:] = [""]
    return one == two


def has_bits(one: Array, other: Array) -> bool:
    """Return True if two arrays have equal types and equal bits."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return one.reshape(-1).view(np.uint8).data == other.reshape(-1).view(np.uint8).data


def digest_of(array: Array) -> str:
    """Return the hash of an array's type and elements."""
    return tensors_sha256({"": array}, {"": array_type(array)})


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


def new_states(program: pb.ProgramDesc, folder: Path, memory: MemoryLimit, pieces: Pieces | None) -> States:
    """Return the states of a program, not yet initialised; raise ResourceLimit if they do not fit."""
    types = _own_types({state.name: type_of(state) for state in held(program)}, pieces)
    memory.take(sum(type.nbytes for type in types.values()), "the states")
    if pieces is not None:
        memory.take(pieces.largest_bytes, "one whole state, which checkpoints and hashes need,")
    try:
        return States(program, folder, memory, pieces)
    except MemoryError:
        raise ResourceLimit("the program's states need more memory than there is") from None
