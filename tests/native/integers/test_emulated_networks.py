"""Random networks of codes as libraries for aarch64, which an emulator runs, with and without dot products of bytes."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from fuzz.libraries.__main__ import HOST
from native.integers.test_random_networks import network

from compiler import Program
from runtime import Run
from runtime.ahead.folder import write_folder
from runtime.ahead.library import library_of
from runtime.ahead.machines import machine_of, target_of
from runtime.ahead.texts import SOURCES

COMPILER, EMULATOR = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")

pytestmark = pytest.mark.skipif(not (COMPILER and EMULATOR), reason="needs aarch64-linux-gnu-gcc and qemu-aarch64")


@cache
def objects() -> TemporaryDirectory[str]:
    """Compile the host and the runtime, which are the same for every network."""
    folder = TemporaryDirectory()
    (Path(folder.name) / "host.c").write_text(HOST)
    sources = Path(str(files("runtime.ahead"))) / "host"
    names = ["host.c", *(str(sources / source) for source in SOURCES)]
    subprocess.run([str(COMPILER), "-O1", "-c", f"-I{sources}", *names], cwd=folder.name, check=True)
    return folder


def emulated(program: Program, feeds: dict[str, np.ndarray], instructions: str, folder: Path) -> bytes:
    """Return what the first step of a library gives, all fetches in their order."""
    desc, machine = program.compile().desc, machine_of("aarch64-linux")
    states = Run(desc, engine="reference").states.arrays
    library = library_of(desc, "net", [target_of("aarch64-linux", machine, instructions)], states)
    write_folder(folder, desc, library, machine._replace(compilers=()), states)
    parts = [str(path) for path in sorted(Path(objects().name).glob("*.o"))]
    subprocess.run(
        [str(COMPILER), "-static", *parts, "-L.", "-lnet", "-lm", "-pthread", "-o", "host"], cwd=folder, check=True
    )
    order = library.functions[0].bound.feeds
    (folder / "feeds.bin").write_bytes(b"".join(feeds[name].tobytes() for name in order))
    subprocess.run([str(EMULATOR), "-cpu", "max", "./host", "0", "1"], cwd=folder, check=True)
    return (folder / "results.bin").read_bytes()  # states follow the fetches


@pytest.mark.sampled(30)
@pytest.mark.parametrize("seed", range(60))
def test_networks_on_neon_have_the_codes_of_the_oracle(seed: int, tmp_path: Path):
    made = network(seed)
    program = Program("net")
    given = [program.input(name, x.dtype.name, x.shape) for name, x in made.operands.items()]
    program.outputs(**{f"y{i}": y for i, y in enumerate(made.write(*given))})
    wanted = b"".join(x.tobytes() for x in made.wanted)
    for instructions in ("neon_dotprod", "neon"):
        found = emulated(program, made.operands, instructions, tmp_path / instructions)
        assert found[: len(wanted)] == wanted, instructions
