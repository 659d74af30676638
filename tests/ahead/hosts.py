"""A library in this process by ctypes, beside the run of the same program; and compilers that may be installed."""

# pyright: basic

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import prograd
from compiler.commands import run_command
from prograd_proto import type_of
from runtime.entries import bound_entries

CC = shutil.which("cc") or ""
needs_cc = pytest.mark.skipif(not CC, reason="there is no C compiler")


def built(path: Path, folder: Path, *options: str) -> Path:
    """Build a program into a new folder."""
    assert run_command(["build", str(path), "-o", str(folder), *options]) == 0
    return folder


class Net:
    """An instance of a library, whose shared form the build linked."""

    def __init__(self, path: Path, folder: Path, *options: str) -> None:
        self.folder = folder if folder.exists() else built(path, folder, *options)
        self.run = prograd.load(path, engine="reference", threads=1)
        self.name = path.stem
        self._library = ctypes.CDLL(str(folder / "shared" / f"lib{self.name}.so"))
        header = (folder / f"{self.name}.h").read_text()
        nbytes = int(header.partition("_MEMORY_BYTES ")[2].split()[0])
        self.memory = ctypes.create_string_buffer(nbytes)
        self.self = ctypes.c_void_p()
        self.must(
            "open", ctypes.byref(self.self), str(folder / f"{self.name}.states.safetensors").encode(), self.memory
        )

    def code(self, function: str, *arguments: object) -> int:
        """Call a function, and return its number."""
        first = () if function == "open" else (self.self,)
        return getattr(self._library, f"{self.name}_{function}")(*first, *arguments)

    def must(self, function: str, *arguments: object) -> None:
        """Call a function that must return 0."""
        code = self.code(function, *arguments)
        assert code == 0, f"{code}: {self.error}"

    @property
    def error(self) -> str:
        """The sentence of the last error."""
        function = getattr(self._library, f"{self.name}_error")
        function.restype = ctypes.c_char_p
        return function(self.self).decode()

    def set(self, name: str, value: np.ndarray) -> None:
        """Set a state."""
        self.must("set", name.encode(), ctypes.c_void_p(value.ctypes.data), ctypes.c_size_t(value.nbytes))

    def state(self, name: str) -> bytes:
        """Return the bytes of a state."""
        function, size = getattr(self._library, f"{self.name}_state"), ctypes.c_size_t()
        function.restype = ctypes.c_void_p
        return ctypes.string_at(function(self.self, name.encode(), ctypes.byref(size)), size.value)

    def sha256(self) -> str:
        """Return the hash of all states."""
        digits = ctypes.create_string_buffer(65)
        self.code("state_sha256", digits)
        return digits.value.decode()

    def step(self, entry: str, feeds: Mapping[str, np.ndarray], after: str = "") -> dict[str, np.ndarray]:
        """Make a step that must succeed, and return all fetches."""
        code, fetches = self.tried(entry, feeds, after)
        assert code == 0, f"{code}: {self.error}"
        return fetches

    def tried(self, entry: str, feeds: Mapping[str, np.ndarray], after: str = "") -> tuple[int, dict[str, np.ndarray]]:
        """Make a step of an entry, for the sizes that follow its name; return its number and all fetches."""
        bound = bound_entries(self.run.program, entry)[0]
        types = {tensor.name: type_of(tensor) for tensor in bound.block.tensors}
        rows = int(after.strip("_") or bound.rows)
        fetches = {
            fetch.name: np.zeros(
                [rows if i == 0 and size == bound.rows and fetch.name in bound.row_names else size
                 for i, size in enumerate(types[fetch.tensor].static_shape)],
                {"bfloat16": "float32"}.get(types[fetch.tensor].dtype, types[fetch.tensor].dtype),
            )
            for fetch in bound.block.fetches
        }  # fmt: skip
        arrays = [*(np.ascontiguousarray(feeds[name]) for name in bound.feeds), *fetches.values()]
        code = self.code(f"{entry}{after}", *(ctypes.c_void_p(array.ctypes.data) for array in arrays))
        return code, fetches


def compiled(folder: Path, source: str, *options: str, compiler: str = CC, run: tuple[str, ...] = ()) -> str:
    """Compile a host with the library of a folder and its runtime, run it there, and return what it prints."""
    name = next(folder.glob("*.json")).stem
    runtime = [str(path) for path in folder.glob("prograd*.c")]
    command = [compiler, "-O2", source, *runtime, "-I.", "-L.", f"-l{name}", "-lm", "-pthread", *options, "-o", "host"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([*run, "./host"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
