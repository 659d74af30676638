"""The reader and loader of objects: the same results as LLVM's loader, and refusals of what is not known."""

import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from native.building import every_target

from runtime.codegen import math
from runtime.codegen.elf import Section, UnknownObject, read_object
from runtime.codegen.ir import FLOAT32, INT64, Module, pointer
from runtime.codegen.machine import target
from runtime.engines.engine import Unavailable
from runtime.engines.native import jit
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.objects import pages
from runtime.engines.native.objects.image import PAGE, Image, image_of
from runtime.engines.native.objects.relocations import KINDS


def exponentials(of):
    """A function with constants in memory, and one that calls it: both kinds of relocations."""
    module = Module(of)
    lanes = of.lanes()
    f = module.function("exponentials", [pointer(FLOAT32), pointer(FLOAT32)])
    for i in f.range(0, 64, lanes):
        f.store(math.exp(f.load(f.arguments[0], i, lanes)), f.arguments[1], i)
    f.end()
    f = module.function("twice", [pointer(FLOAT32), pointer(FLOAT32)])
    f.call("exponentials", f.arguments[0], f.arguments[1])
    f.call("exponentials", f.arguments[1], f.arguments[1])
    f.end()
    return module


def results(code):
    x, y = np.linspace(-3, 1, 64, dtype="f"), np.zeros(64, "f")
    code.function("twice", 2)(x.ctypes.data, y.ctypes.data)
    return x, y


@every_target
def test_our_loader_and_that_of_llvm_give_the_same_bits(target):
    objects = jit.compiled(exponentials(target))
    x, ours = results(jit.load(objects, target))
    _, theirs = results(jit._loaded_by_llvm([objects], target))
    assert ours.tobytes() == theirs.tobytes()
    np.testing.assert_allclose(ours, np.exp(np.exp(x)), rtol=1e-5)


@every_target
def test_code_of_macos_runs_where_calls_are_the_same(target):
    """Calls are those of Linux, so its objects can be tried here."""
    other = replace(target, triple=target.triple.replace("unknown-linux-gnu", "apple-darwin-elf"))
    _, ours = results(jit.load(jit.compiled(exponentials(other)), other))
    assert ours.tobytes() == results(jit.load(jit.compiled(exponentials(target)), target))[1].tobytes()


@pytest.mark.skipif(this_machine().name == "neon", reason="the calls of Windows differ on x86-64 only")
def test_code_of_windows_runs_through_a_function_that_calls_as_windows_does():
    here = this_machine()
    windows = target(here.name, "win32")
    code = jit.load(jit.compiled(exponentials(windows)), here)
    through = Module(here)
    through.add("define void @twice(ptr %f, ptr %x, ptr %y) { call win64cc void %f(ptr %x, ptr %y) ret void }")
    call = jit.load(jit.compiled(through), here).function("twice", 3)
    x, y = np.linspace(-3, 1, 64, dtype="f"), np.zeros(64, "f")
    call(code.address("twice"), x.ctypes.data, y.ctypes.data)
    assert y.tobytes() == results(jit.load(jit.compiled(exponentials(here)), here))[1].tobytes()


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("name", ["avx512", "avx2", "sse2", "neon"])
def test_objects_of_every_target_are_read_and_laid_out(name, system):
    image = image_of(read_object(jit.compiled(exponentials(target(name, system)))))
    assert {"exponentials", "twice"} <= image.addresses.keys()
    assert image.code_bytes == PAGE
    assert len(image.content) in (PAGE, 2 * PAGE)


def at_once(machine, kind, word, to, at):
    one = (np.array([number], np.int64) for number in (word, to, at))
    return int(KINDS[machine, kind](*one)[0])


# Words that the manual gives, and an assembler: adrp x8, ldr d0, bl and so on, without and with what they lead to.
@pytest.mark.parametrize(
    ("machine", "kind", "before", "to", "at", "after"),
    [
        ("x86_64", 2, 0, 0x1000, 0x10, 0xFF0),
        ("x86_64", 4, 0, 0x10, 0x1000, -0xFF0),
        ("aarch64", 261, 0, 0x10, 0x1000, -0xFF0),
        ("aarch64", 275, 0x90000008, 0x3008, 0x1004, 0xD0000008),  # adrp x8, 2 pages on
        ("aarch64", 275, 0x90000008, 0x0008, 0x1004, 0xF0FFFFE8),  # adrp x8, 1 page back
        ("aarch64", 277, 0x91000108, 0x3008, 0, 0x91002108),  # add x8, x8, #8
        ("aarch64", 278, 0x39400108, 0x3003, 0, 0x39400D08),  # ldrb w8, [x8, #3]
        ("aarch64", 284, 0x79400108, 0x3006, 0, 0x79400D08),  # ldrh w8, [x8, #6]
        ("aarch64", 285, 0xBD400100, 0x300C, 0, 0xBD400D00),  # ldr s0, [x8, #12]
        ("aarch64", 286, 0xFD400100, 0x3018, 0, 0xFD400D00),  # ldr d0, [x8, #24]
        ("aarch64", 299, 0x3DC00100, 0x3030, 0, 0x3DC00D00),  # ldr q0, [x8, #48]
        ("aarch64", 283, 0x94000000, 0x1010, 0x1000, 0x94000004),  # bl 4 instructions on
        ("aarch64", 282, 0x14000000, 0x1000, 0x1010, 0x17FFFFFC),  # b 4 instructions back
    ],
)
def test_a_relocation_writes_the_word_of_the_manual(machine, kind, before, to, at, after):
    assert at_once(machine, kind, before, to, at) == after


@pytest.mark.parametrize(
    ("machine", "kind", "to", "message"),
    [
        ("x86_64", 2, 1 << 31, "a distance does not fit into 32 bits"),
        ("aarch64", 283, 1 << 27, "a distance does not fit into 26 bits"),
        ("aarch64", 283, 2, "a place is not at a multiple of 4 bytes"),
        ("aarch64", 275, 1 << 33, "a distance does not fit into 21 bits"),
        ("aarch64", 286, 4, "a place is not at a multiple of 8 bytes"),
    ],
)
def test_a_relocation_that_does_not_fit_is_refused(machine, kind, to, message):
    with pytest.raises(UnknownObject, match=f"^{message}$"):
        at_once(machine, kind, 0, to, 0)


def test_what_calls_the_c_library_is_loaded_by_llvm():
    here = this_machine()
    module = Module(here)
    module.declare("declare double @fmod(double, double)")
    module.add(
        "define void @remainder(ptr %x) { %a = load double, ptr %x"
        " %b = call double @fmod(double %a, double 3.0) store double %b, ptr %x ret void }"
    )
    objects = jit.compiled(module)
    with pytest.raises(UnknownObject, match=r"^a relocation leads out of the object$"):
        image_of(read_object(objects))
    x = np.array([7.5])
    jit.load(objects, here).function("remainder", 1)(x.ctypes.data)
    assert x[0] == 1.5


def test_what_writes_memory_of_its_own_is_refused():
    module = Module(this_machine())
    module.add("@count = global i64 1\ndefine void @up(ptr %x) { store ptr %x, ptr @count ret void }")
    with pytest.raises(UnknownObject, match=r"^the object has memory that it writes$"):
        read_object(jit.compiled(module))


def test_a_relocation_of_another_kind_is_refused():
    object = read_object(jit.compiled(exponentials(target("avx2"))))
    changed = {number: rows.copy() for number, rows in object.relocations.items()}
    for rows in changed.values():
        rows["kind"][0] = 9
    with pytest.raises(UnknownObject, match=r"^relocations of kind 9 are not known for x86_64$"):
        image_of(object._replace(relocations=changed))


def test_a_function_outside_of_the_code_is_refused():
    object = read_object(jit.compiled(exponentials(target("avx2"))))
    symbols = object.symbols.copy()
    symbols["value"][object.names["twice"]] = PAGE
    with pytest.raises(UnknownObject, match=r"^a function is outside of the code$"):
        image_of(object._replace(symbols=symbols))


def test_an_object_that_ends_early_or_is_none_is_refused():
    objects = jit.compiled(exponentials(target("avx2")))
    for size in range(0, len(objects) - 1, 61):
        with pytest.raises(UnknownObject):
            read_object(objects[:size])
    with pytest.raises(UnknownObject, match=r"^this is no object of the format ELF, of 64 bits$"):
        read_object(b"MZ" + objects[2:])
    with pytest.raises(UnknownObject, match=r"^there is nothing here for ELF of kind 1 for machine 8$"):
        read_object(objects[:18] + struct.pack("<H", 8) + objects[20:])


def test_damage_anywhere_is_refused_or_read_but_never_a_traceback():
    objects = jit.compiled(exponentials(target("neon")))
    random = np.random.default_rng(3)
    for at in random.integers(0, len(objects), 600):
        damaged = bytearray(objects)
        damaged[at] ^= int(random.integers(1, 256))
        try:
            image_of(read_object(bytes(damaged)))
        except UnknownObject:
            continue


def test_sections_begin_at_multiples_of_what_they_ask_for():
    object = read_object(jit.compiled(exponentials(target("avx512"))))
    wide = object._replace(sections=[*object.sections, Section(99, False, 4096, b"x"), Section(98, False, 64, b"y")])
    image = image_of(wide)
    assert image.content.index(b"x" + bytes(63) + b"y") % 4096 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists what its pages allow")
def test_pages_are_never_writable_and_executable_at_once():
    code = pages.Pages(Image(bytes(2 * PAGE), PAGE, {}))
    allowed = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, flags = line.split()[:2]
        start, end = (int(bound, 16) for bound in bounds.split("-"))
        for place in (code.start, code.start + PAGE):
            if start <= place < end:
                allowed[place] = flags
    assert allowed == {code.start: "r-xp", code.start + PAGE: "r--p"}


def test_where_memory_cannot_be_executed_the_reason_is_a_sentence(monkeypatch):
    def forbid(start, size, allowed):
        pages.ctypes.set_errno(13)
        return -1

    monkeypatch.setattr("runtime.engines.native.objects.posix._system", lambda: type("", (), {"mprotect": forbid}))
    sentence = "the native engine needs memory that can be executed, and this system forbids it: Permission denied"
    with pytest.raises(Unavailable, match=f"^{sentence}$"):
        jit.load(jit.compiled(exponentials(this_machine())), this_machine())
    with pytest.raises(Unavailable, match=f"^{sentence}$") as error:
        jit.require_available()
    assert error.value.word == "no_executable_memory"


REFUSE_EXECUTION = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
    sys.exit("no such kernel")
from runtime.__main__ import main
main(["execute", sys.argv[1], "--steps", "1", "-q"])
main(["execute", sys.argv[1], "--steps", "1", "-q", "--engine", "native"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process forbid itself executable memory")
def test_a_kernel_that_refuses_executable_memory_is_told_of_in_a_sentence():
    program = Path(__file__).parents[3] / "examples" / "linear_regression.pb"
    environment = {name: value for name, value in os.environ.items() if name != "PROGRAD_ENGINE"}
    command = [sys.executable, "-c", REFUSE_EXECUTION, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.stderr == "no such kernel\n":
        pytest.skip("the kernel is older than 6.3")
    assert "engine=reference native=no_executable_memory" in done.stdout
    assert done.stderr == (
        "runtime: the native engine needs memory that can be executed, and this system forbids it: Permission denied\n"
    )


def test_a_function_of_whole_numbers_gets_them():
    here = this_machine()
    module = Module(here)
    f = module.function("add", [INT64, INT64, pointer(INT64)])
    f.store(f.arguments[0] + f.arguments[1], f.arguments[2], 0)
    f.end()
    sum = np.zeros(1, np.int64)
    jit.load(jit.compiled(module), here).function("add", 3)(40, 2, sum.ctypes.data)
    assert sum[0] == 42
