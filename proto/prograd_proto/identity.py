"""Hashes that identify programs and sets of states."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from math import prod

from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES
from prograd_proto.errors import ProgramError
from prograd_proto.files import canonical_bytes, copy_of

Elements = bytes | bytearray | memoryview
"""The bytes of a state's elements: little-endian, row-major, contiguous."""

NamedState = tuple[str, str, Sequence[int], Elements | Callable[[], Elements]]
"""A state's name, dtype name, shape and elements, or a function that returns them; it is called in hash order."""


def program_sha256(program: pb.ProgramDesc) -> str:
    """Return the hash, in hexadecimal digits, of the computation of a program.

    The hash covers the canonical bytes without the parts that change no result: the producer, the user's locations, the
    texts of an imported model, the memory plans, and the default run. The program is not modified.
    """
    bare = copy_of(program)
    for field in ("producer", "locations", "run", "model"):
        bare.ClearField(field)
    for entry in bare.entries:
        for binding in entry.bindings:
            binding.ClearField("plan")
    _clear_places(bare)
    return hashlib.sha256(canonical_bytes(bare)).hexdigest()


def _clear_places(program: pb.ProgramDesc) -> None:
    """Delete the places in the user's source that made ops and limits."""
    for limits in program.limits:
        limits.ClearField("reason")
    for state in program.states:
        if state.HasField("op"):
            state.op.ClearField("location")
    for block in program.blocks:
        for op in block.ops:
            op.ClearField("location")


def state_sha256(states: Iterable[NamedState]) -> str:
    """Return the hash, in hexadecimal digits, of all states, in any order.

    The hash covers the number of states and then, in the order of the names' UTF-8 bytes: the length of the name and
    the name, the length of the dtype's name and that name, the number of axes and each extent, the number of bytes and
    the bytes. Numbers are unsigned, 64 bits, little-endian; names are UTF-8.

    Raises ProgramError for two states of one name, or for bytes that do not fit the dtype and shape.
    """
    ordered = sorted(states, key=lambda state: state[0].encode())
    digest = hashlib.sha256(word(len(ordered)))
    last = None
    for name, dtype, shape, given in ordered:
        elements = given() if callable(given) else given
        size = memoryview(elements).nbytes
        if name == last:
            raise ProgramError(f"state {name!r} is there twice")
        if size != ITEM_BYTES.get(dtype, 0) * prod(shape):
            raise ProgramError(f"state {name!r}: {size} bytes are not a {dtype}{list(shape)}")
        for text in (name, dtype):
            digest.update(word(len(text.encode())) + text.encode())
        digest.update(word(len(shape)) + b"".join(map(word, shape)))
        digest.update(word(size))
        digest.update(elements)
        last = name
    return digest.hexdigest()


def word(number: int) -> bytes:
    """Return a number as 8 little-endian bytes."""
    return int(number).to_bytes(8, "little")
