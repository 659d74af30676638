"""The instruction set `amx` for tests: by the CPU where it has it, else by a handler of SIGILL."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.engines.native import cpu
from runtime.engines.native.cpu import instruction_sets


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The compiled handler, or None where the CPU has AMX and the system lets this process use its tiles."""
    if "amx" in instruction_sets():
        if why := cpu.refused_tiles():
            pytest.skip(why)
        return None
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the handler of SIGILL is for Linux on x86-64")
    if "avx512_bf16" not in instruction_sets():
        pytest.skip("code for amx also has AVX-512 instructions, which this CPU does not have")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler for the handler of SIGILL")
    library = tmp_path_factory.mktemp("amx") / "emulator.so"
    source = Path(__file__).with_name("emulator.c")
    subprocess.run([compiler, "-O2", "-mfma", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture
def products(emulator: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let this process run code for `amx`; return a function that counts emulated products, -1 without emulation."""
    if emulator is None:
        yield lambda: -1
        return
    features = {**cpu.cpu_features(), "AMX_TILE": True, "AMX_BF16": True, "AMX_INT8": True}
    monkeypatch.setattr(cpu, "cpu_features", lambda: features)
    monkeypatch.setattr(cpu, "refused_tiles", lambda: "")
    emulator.install()
    yield emulator.count
    emulator.uninstall()
    cpu.this_machine.cache_clear()
