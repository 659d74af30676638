"""Memory of compiling: it is released, and the next compilation still works."""

import sys
from pathlib import Path

import numpy as np
import pytest
from native.building import call

from runtime.codegen.ir import Function, Value
from runtime.engines.native import compiled, jit
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.release_memory import LIBRARY, give_back

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no words for it")


def resident() -> int:
    """KiB of LLVM's code that are in memory."""
    size, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            inside = words[1] == "r-xp" and LIBRARY in words[-1]
        elif inside and words[0] == "Rss:":
            size += int(words[1])
    return size


def double(f: Function, x: Value) -> None:
    f.store(f.load(x, 0) * 2.0, x, 0)


def test_the_code_of_llvm_leaves_memory_when_something_is_compiled(monkeypatch: pytest.MonkeyPatch):
    for module in (compiled, jit):  # the other tests compile too much for that
        monkeypatch.setattr(module, "give_back", give_back)
    for _ in range(2):
        [x] = call(this_machine(), double, [np.float32([21])])
        assert x[0] == 42
        assert resident() < 4 << 10  # of some 50 MiB
