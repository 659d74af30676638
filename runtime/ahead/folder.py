"""The folder of a library: archive, header, states, runtime in C, example, and what build systems read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb
from runtime.ahead.archive import archive_of
from runtime.ahead.fortran import module_of
from runtime.ahead.library import Library
from runtime.ahead.machines import Machine
from runtime.ahead.rust import crate_of
from runtime.ahead.texts import SOURCES, cmake_of, description_of, example_of, header_of, pkg_config_of, states_file
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.files.output import make_folder, write_output

HOST_FILES: Final = (
    *("prograd.h", "prograd_tables.h", "prograd_run.h", "prograd_checkpoint.h"),
    *(*SOURCES, "prograd_run.c", "prograd_rows.c"),
    *("prograd_checkpoint.c", "prograd_position.c", "prograd_fingerprint.c", "prograd_shards.c"),
)
"""Files of the runtime in C, which are the same for every program."""

OF_THREADS: Final = "prograd_threads.c"

SHARED: Final = "shared"
"""Folder of the shared library: beside the static one, linkers would take it, and programs would not find it."""


class Folder(NamedTuple):
    """The paths of the static library and of the shared one; None for the latter without a compiler for the machine."""

    static: Path
    shared: Path | None


def require_empty(folder: Path, *, force: bool) -> None:
    """Raise UsageError unless a folder is empty or absent, or may be written over."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: it is a file; -o names a folder")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise UsageError(f"{folder}: the folder is not empty; --force writes into it")


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files by their paths in a folder; raise errors as `write_output` does."""
    for path, content in contents.items():
        make_folder((folder / path).parent)
        write_output(folder / path, content, force=True)


def link(linker: str, arguments: Sequence[str], path: Path) -> None:
    """Let a linker write a file; raise UsageError with the first line of what it says if it fails."""
    done = subprocess.run([linker, *arguments, "-o", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{linker} does not link {path}: {(done.stderr.strip().splitlines() or ['no reason'])[0]}")


def write_folder(
    folder: Path,
    program: pb.ProgramDesc,
    library: Library,
    machine: Machine,
    states: Mapping[str, Array],
) -> Folder:
    """Write all files; equal arguments give equal bytes.

    Raises errors as `write_output` does, UsageError if a C compiler that is there fails.
    """
    name = library.name
    members = [(f"{name[:8]}{i}.o", member.content, member.symbols) for i, member in enumerate(library.members)]
    texts = {
        f"{name}.h": header_of(program, library, machine),
        f"{name}.json": description_of(program, library, states),
        f"{name}.pc": pkg_config_of(library),
        "CMakeLists.txt": cmake_of(library),
    }
    if machine.has_files:
        texts |= {"example.c": example_of(library), f"{name}.f90": module_of(library)}
        texts |= {f"rust/{path}": text for path, text in crate_of(library).items()}
    hosts = [*HOST_FILES, *([OF_THREADS] if library.threads > 1 else [])]
    contents = {path: text.encode() for path, text in texts.items()}
    contents |= {host: (files("runtime.ahead") / "host" / host).read_bytes() for host in hosts}
    contents[f"{name}.states.safetensors"] = states_file(program, library, states)
    contents[f"lib{name}.a"] = archive_of(members)
    write_files(folder, contents)
    return Folder(folder / f"lib{name}.a", _shared(folder, library, machine))


def _shared(folder: Path, library: Library, machine: Machine) -> Path | None:
    """Link the shared library if there is a C compiler for the machine."""
    found = next(filter(None, map(shutil.which, machine.compilers)), None)
    path = folder / SHARED / f"lib{library.name}.so"
    if found is None:
        return None
    make_folder(path.parent)
    threads = [str(folder / OF_THREADS), "-pthread"] if library.threads > 1 else []
    archive = ["-Wl,--whole-archive", str(folder / f"lib{library.name}.a"), "-Wl,--no-whole-archive"]
    flags = ["-O2", "-shared", "-fPIC", "-Wl,--build-id=none"]
    sources = [str(folder / host) for host in HOST_FILES if host.endswith(".c")]
    link(found, [*flags, *sources, *threads, *archive, "-lm"], path)
    return path
