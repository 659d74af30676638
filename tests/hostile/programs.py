"""Small good programs to begin with, as messages, and the folder that they read from."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from mutations import good_programs
from subjects.small_programs import linear, rich, save, write_data

from prograd_proto import program_pb2 as pb


@cache
def training_programs() -> tuple[bytes, ...]:
    """Programs that train on rows.safetensors, small and a little less small."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        made = [
            save(linear(), folder, epochs=2, evaluate=None, keep_best=None),
            save(rich(), folder, name="q.pb", epochs=2),
        ]
        return tuple(path.read_bytes() for path in made)


@cache
def programs() -> tuple[tuple[bytes, ...], ...]:
    """Return programs by size: single ops, whole training runs, larger networks."""
    networks, single = good_programs()[:2], good_programs()[2:]
    return single, training_programs(), networks


def furnish(folder: Path) -> None:
    """Put what programs read into a folder: data, and a good program to compare with."""
    write_data(folder)
    (folder / "good.pb").write_bytes(training_programs()[0])


def parsed(raw: bytes) -> pb.ProgramDesc:
    """The message of a file."""
    return pb.ProgramDesc.FromString(raw)
