"""Programs on disk: load and save.

A file is the program's canonical bytes and then the field `complete`, which has the highest possible field number. A
truncated file does not end with it, even if it was cut between two fields.
"""

import os
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message

from prograd_proto import program_pb2 as pb
from prograd_proto.atomic import write_atomically
from prograd_proto.errors import ProgramError, Unwritable
from prograd_proto.file_names import other_form
from prograd_proto.regular_files import open_regular
from prograd_proto.spelling import nearest
from prograd_proto.upgrades import FORMAT_VERSION, upgrade
from prograd_proto.wording import as_asked

RETIRED: Final[dict[str, tuple[int, ...]]] = {"OpDesc": (9, 10), "MemoryPlan": (2, 6)}
"""Numbers of fields that earlier versions wrote, and whose values are now computed: memory that is shared, offsets."""

MAX_BYTES: Final = 1 << 30
"""The largest program file that is read or written: 1 GiB. Big tensors are in files beside it."""

Copied = TypeVar("Copied", bound=Message)

END: Final = pb.ProgramDesc(complete=True).SerializeToString()


def load(path: str | os.PathLike[str]) -> pb.ProgramDesc:
    """Return the program in a file, upgraded to the current format and operators.

    Nothing is imported, evaluated or followed. The result is a parsed message, not yet a verified program: its names,
    indices and types may be wrong.

    Raises ProgramError, beginning with the path, if there is no such file, it is larger than `MAX_BYTES`, is damaged or
    no program, or comes from a newer prograd.
    """
    where = os.fspath(path)
    try:
        program = parse(read(where))
        upgrade(program)
    except ProgramError as error:
        if where.endswith(".safetensors") and isinstance(error.__cause__, DecodeError):
            how = as_asked("--load after the program", "run.load")
            raise ProgramError(f"{where}: this is a safetensors file and no program; {how} takes states") from None
        raise ProgramError(f"{where}: {error}") from error.__cause__
    return program


def save(program: pb.ProgramDesc, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write a program to a file, whole or not at all; equal programs give equal files.

    Raises ProgramError, beginning with the path, in these cases: the file exists and `force` is False; its name stands
    for another format, as in "p.onnx"; it cannot be written (the OSError is the cause, and the old file is unchanged);
    the program is too big or of another version.
    """
    where = os.fspath(path)
    if program.format_version != FORMAT_VERSION:
        raise ProgramError(
            f"{where}: the program says format version {program.format_version}, this prograd writes {FORMAT_VERSION}"
        )
    raw = canonical_bytes(program) + END
    if len(raw) > MAX_BYTES:
        raise ProgramError(
            f"{where}: the program takes {len(raw)} bytes, more than the {MAX_BYTES} of a program file; "
            "put big tensors into a file beside it"
        )
    write(raw, where, force=force)


def is_saved(program: pb.ProgramDesc, path: str | os.PathLike[str]) -> bool:
    """Return True if `path` is a regular file of the bytes that `save` writes; False if it cannot be read."""
    raw = canonical_bytes(program) + END
    try:
        with open_regular(path) as file:
            return os.fstat(file.fileno()).st_size == len(raw) and file.read() == raw
    except OSError:
        return False


def write(raw: bytes, where: str, *, force: bool) -> None:
    """Write a file's bytes to a path, whole or not at all; for errors see `save`."""
    if sentence := other_form(where, ".pb", "programs"):
        raise ProgramError(sentence)
    try:
        write_atomically(where, raw, force=force)
    except FileExistsError as error:
        raise ProgramError(f"{where}: {error}") from error
    except OSError as error:
        raise Unwritable(f"{where}: the file cannot be written: {error.strerror or error}") from error


def canonical_bytes(program: pb.ProgramDesc) -> bytes:
    """Return the canonical serialisation of a program: fields by number, without defaults and end mark.

    Equal programs have equal bytes, and programs of equal bytes are equal.
    """
    if program.complete:  # part of the file, not of the program
        program = copy_of(program)
        program.ClearField("complete")
    try:
        return program.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise ProgramError(f"the program cannot be written: {error}") from error


def copy_of(message: Copied) -> Copied:
    """Return an independent copy of a program or a part of it."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def read(where: str) -> bytes:
    """Return the bytes of a regular file of at most `MAX_BYTES`."""
    try:
        with open_regular(where) as file:
            return file.read(size_to_read(os.fstat(file.fileno()).st_size))
    except FileNotFoundError as error:
        raise ProgramError(f"no such file{_similar(where)}") from error
    except OSError as error:
        raise ProgramError(f"the file cannot be read: {error.strerror or error}") from error


def _similar(where: str) -> str:
    """Return a hint at the program in the same folder whose name is the closest, or ""."""
    folder, name = os.path.split(where)
    try:
        programs = [entry.name[:-3] for entry in os.scandir(folder or ".") if entry.name.endswith(".pb")]
    except OSError:
        return ""
    near = nearest(name.removesuffix(".pb"), programs)
    return f"; did you mean {near + '.pb'!r}?" if near else ""


def size_to_read(size: int) -> int:
    """Return the size of a file; raise ProgramError if a program cannot have it."""
    if size == 0:
        raise ProgramError("the file is empty")
    if size > MAX_BYTES:
        raise ProgramError(f"the file has {size} bytes, more than the {MAX_BYTES} of a program file")
    return size


def parse(raw: bytes) -> pb.ProgramDesc:
    """Return the message in a file's bytes, without its end mark, of any version."""
    try:
        program = pb.ProgramDesc.FromString(raw)
    except DecodeError as error:
        raise ProgramError("this is not a prograd program, or it is damaged or cut short") from error
    if not 0 < program.format_version <= FORMAT_VERSION:
        return program  # `upgrade` reports the error; a newer format may have further fields
    refuse_unknown_fields(program, raw)
    if not program.complete:
        raise ProgramError("the file is cut short: its end mark is missing")
    program.ClearField("complete")
    return program


def refuse_unknown_fields(program: pb.ProgramDesc, raw: bytes) -> None:
    """Raise ProgramError if a message in the program has a field that this prograd does not know.

    The program, read from `raw`, loses such fields. Searching a copy would need its memory a second time.
    """
    size = program.ByteSize()
    program.DiscardUnknownFields()
    if program.ByteSize() == size:  # about ten times faster than the walk that locates the field
        return
    found = first_unknown(pb.ProgramDesc.FromString(raw))
    if found is not None:
        message, number = found
        raise ProgramError(
            f"field {number} of {message} is unknown to this prograd; a newer one wrote it: update prograd"
        )


def first_unknown(message: Message) -> tuple[str, int] | None:
    """Return the message and number of the first unknown field at or below `message` that is not retired."""
    from google.protobuf.unknown_fields import UnknownFieldSet  # imported only on errors, for start-up time

    kind = message.DESCRIPTOR.name
    for field in UnknownFieldSet(message):
        if field.field_number not in RETIRED.get(kind, ()):
            return kind, field.field_number
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for part in [value] if isinstance(value, Message) else value:
            if found := first_unknown(part):
                return found
    return None
