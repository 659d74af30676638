"""From IR to code: contents of objects, and errors where nothing can be compiled."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native.building import every_target

from prograd_proto.wording import install_hint
from runtime.codegen.ir import FLOAT32, INT64, Module, pointer
from runtime.engines.engine import Unavailable
from runtime.engines.native import cpu, jit


def doubling(of):
    module = Module(of)
    f = module.function("double", [pointer(FLOAT32)])
    for i in f.range(0, 8):
        f.store(f.load(f.arguments[0], i) * 2.0, f.arguments[0], i)
    f.end()
    return module


@every_target
def test_an_object_is_the_same_bytes_each_time_and_runs_wherever_it_is_put(target):
    objects = jit.compiled(doubling(target))
    assert objects == jit.compiled(doubling(target))
    functions = [jit.load(objects, target).function("double", 1) for _ in range(2)]
    x = np.arange(8, dtype="f")
    for function in functions:
        function(x.ctypes.data)
    assert x.tolist() == [4.0 * i for i in range(8)]


def strided(of, plain):
    """Return a function that doubles `count` numbers with a stride of `apart` elements."""
    module = Module(of, has_plain_loops=plain)
    f = module.function("strided", [pointer(FLOAT32), INT64, INT64])
    x, count, apart = f.arguments
    for i in f.range(0, count):
        f.store(f.load(x, i * apart) * 2.0, x, i * apart)
    f.end()
    return module


def test_llvm_searches_for_addresses_in_plain_loops_alone_whatever_was_compiled_before():
    here = cpu.this_machine()
    texts = {plain: jit.assembly(strided(here, plain)) for plain in (True, False)}
    assert texts[True] != texts[False]
    for plain in (True, False, False, True):
        assert jit.assembly(strided(here, plain)) == texts[plain]
        x = np.ones(8, "f")
        jit.load(jit.compiled(strided(here, plain)), here).function("strided", 3)(x.ctypes.data, 3, 3)
        assert x.tolist() == [2, 1, 1, 2, 1, 1, 2, 1]


def test_without_llvmlite_the_reason_is_a_sentence_and_the_runtime_works():
    script = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "import runtime, runtime.runs.run\nfrom runtime.engines.engine import Unavailable\n"
        "from runtime.engines.native import jit\ntry: jit.require_available()\nexcept Unavailable as e: print(e, e.word)"  # noqa: E501
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"the native engine needs llvmlite ({install_hint('native')}): "
        "No module named 'llvmlite.binding'; 'llvmlite' is not a package no_llvmlite\n"
    )


def test_with_an_llvmlite_that_does_not_load_the_reference_computes_unless_native_code_is_asked_for(tmp_path):
    script = (
        "import sys; sys.modules['llvmlite.binding'] = None\nfrom runtime.__main__ import main\n"
        "for more in [], ['--engine', 'native']: main(['execute', sys.argv[1], '--steps', '1', '-q', *more])"
    )
    program = Path(__file__).parents[3] / "examples" / "linear_regression.pb"
    environment = {name: value for name, value in os.environ.items() if name != "PROGRAD_ENGINE"}
    environment["PROGRAD_CACHE"] = str(tmp_path)
    command = [sys.executable, "-c", script, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "engine=reference native=no_llvmlite" in done.stdout
    assert done.stderr == (
        f"runtime: the native engine needs llvmlite ({install_hint('native')}): "
        "import of llvmlite.binding halted; None in sys.modules\n"
    )


def test_an_llvmlite_that_does_not_load_is_said_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    jit._llvm.cache_clear()
    with pytest.raises(Unavailable, match=r"^the native engine needs llvmlite .*: import of llvmlite.binding halted"):
        jit.compiled(doubling(cpu.this_machine()))


def test_on_a_cpu_without_an_instruction_set_the_reason_is_a_sentence(monkeypatch):
    monkeypatch.setattr(cpu.platform, "machine", lambda: "s390x")
    cpu.this_machine.cache_clear()
    with pytest.raises(Unavailable, match=r"^the native engine has no code for this CPU, s390x$") as error:
        jit.require_available()
    assert error.value.word == "no_code_for_this_cpu"
    cpu.this_machine.cache_clear()


def test_here_it_is_available():
    jit.require_available()


def test_a_function_that_is_not_there_is_a_mistake_of_its_author():
    here = cpu.this_machine()
    with pytest.raises(AssertionError, match="there is no function triple"):
        jit.load(jit.compiled(doubling(here)), here).function("triple", 1)
