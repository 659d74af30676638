"""Short code: functions that several kernels share, objects without relocations, and the bits of fast code."""

# pyright: basic

import numpy as np
import pytest
from ahead.hosts import Net, needs_cc
from ahead.test_hosts import DIGITS
from ahead.test_same_bits import EXAMPLES, random_feeds

import prograd
from runtime.ahead.library import library_of
from runtime.ahead.machines import machine_of, targets_of
from runtime.ahead.sharing import share
from runtime.codegen.elf import read_object
from runtime.codegen.ir import Module
from runtime.codegen.machine import target


def library(path, name, cpu="", *, is_compact=False):
    run, machine = prograd.load(path, engine="reference", threads=1), machine_of(name)
    targets = targets_of(name, machine, cpu, is_compact=is_compact)
    return library_of(run.program, path.stem, targets, run.states.arrays, word_bytes=machine.word_bytes)


def size(library):
    return sum(len(member.content) for member in library.members)


def loop(name, extent, scale):
    """Return the text of a function that adds to `extent` elements, `scale` elements apart."""
    body = "".join(f"  %v{i} = fadd float %v{i - 1}, %v{i - 1}\n" for i in range(5, 40))
    return (
        f"define hidden void @{name}(ptr %a0, i64 %a1, i64 %a2, i64 %a3) #0 {{\nentry:\n"
        f"  %v1 = mul i64 %a1, {scale}\n  %v2 = getelementptr float, ptr %a0, i64 {extent}\n"
        f"  %v3 = urem i64 %v1, 3\n  %v4 = load float, ptr %v2, align 4\n{body}"
        f"  store float %v39, ptr %v2, align 4\n  ret void\n}}\n"
    )


def test_functions_that_differ_in_whole_numbers_become_one():
    one, other = Module(target("neon")), Module(target("neon"))
    one.add(loop("f", 8, 24))
    one.add(loop("g", 16, 24))
    other.add(loop("h", 16, 12))
    share([one, other], "net.")
    assert [text.partition("(")[0] for text in one.functions] == [
        "define hidden void @f", "define hidden void @g", "define hidden void @net.shared_0"
    ]  # fmt: skip
    assert "fadd" not in one.functions[0] + one.functions[1] + other.functions[0]
    assert "@f.numbers = private unnamed_addr constant [2 x i32] [i32 24, i32 8]" in one.text
    assert "@h.numbers = private unnamed_addr constant [2 x i32] [i32 12, i32 16]" in other.text
    assert "declare hidden void @net.shared_0" in other.text
    assert "urem i64 %v1, 3" in one.functions[2]


def test_a_division_by_another_number_is_another_function():
    module = Module(target("neon"))
    module.add(loop("f", 8, 24))
    module.add(loop("g", 16, 24).replace("urem i64 %v1, 3", "urem i64 %v1, 5"))
    share([module], "net.")
    assert len(module.functions) == 2


def test_code_for_x86_64_is_one_section_that_no_linker_changes():
    found = library(DIGITS, "x86_64-linux", "avx2")
    kernels = [member for member in found.members if "digits_mlp.drive" in member.symbols]
    assert len(kernels) == 1
    code = read_object(kernels[0].content)
    assert [section.executed for section in code.sections] == [True]
    assert code.relocations == {}
    assert set(code.names) == set(kernels[0].symbols)
    assert size(found) < 110_000


def test_short_code_is_short():
    assert size(library(DIGITS, "x86_64-linux", "avx2", is_compact=True)) < 85_000
    assert size(library(DIGITS, "wasm32")) < 80_000


@pytest.mark.thorough
@needs_cc
@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn", "decoder"])
def test_short_code_has_the_bits_of_fast_code(tmp_path, name):
    path = EXAMPLES / f"{name}.pb"
    net = Net(path, tmp_path / "out", "--cpu", "avx2", "--small")
    run = prograd.load(path, engine="native.avx2", threads=1)
    run.state["total_steps"] = 100
    net.set("total_steps", np.array(100, np.int64))
    feeds = random_feeds(run, "train", np.random.default_rng(3))
    for _ in range(3):
        run.stepper("train")(**feeds)
        net.step("train", feeds)
    assert net.sha256() == run.states.sha256()
