"""Targets: which instruction set a CPU gets, and what it may be made of."""

from pathlib import Path

import pytest
from subjects.commands import told

from runtime.codegen.machine import INSTRUCTION_SETS, target
from runtime.engines.native.cpu import caches, usable
from runtime.errors import UsageError

AVX2 = {"SSE2": True, "AVX2": True, "FMA3": True, "F16C": True}
AVX512 = AVX2 | dict.fromkeys(["AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"], True)


@pytest.mark.parametrize(
    ("features", "machine", "names"),
    [
        (AVX512, "x86_64", ["avx512", "avx2", "sse2"]),
        (AVX512, "AMD64", ["avx512", "avx2", "sse2"]),
        (AVX512 | {"AVX512DQ": False}, "x86_64", ["avx2", "sse2"]),
        (AVX2 | {"FMA3": False}, "x86_64", ["sse2"]),
        ({"ASIMD": True, "NEON": True}, "aarch64", ["neon"]),
        ({"ASIMD": True}, "arm64", ["neon"]),
        ({"VSX": True}, "ppc64le", []),
        ({}, "", []),
    ],
)
def test_a_cpu_gets_the_best_instruction_set_all_of_whose_parts_it_has(features, machine, names):
    assert usable(features, machine) == names


def test_lanes_follow_from_the_register_and_the_element():
    assert [target(name).lanes() for name in INSTRUCTION_SETS] == [16, 16, 16, 16, 16, 8, 8, 4, 4, 4]
    assert target("avx512").lanes(64) == 8
    assert target("neon").lanes(8) == 16


def test_a_target_names_the_system_for_the_object_format():
    assert target("avx2", "linux").triple == "x86_64-unknown-linux-gnu"
    assert target("neon", "darwin").triple == "aarch64-apple-darwin-elf"
    assert target("sse2", "win32").triple == "x86_64-pc-windows-msvc-elf"


def test_an_unknown_instruction_set_is_refused():
    assert (
        told(UsageError, lambda: target("avx1024")) == "there is no instruction set 'avx1024'; there are "
        "amx_int8, amx, avx512_bf16, avx512_vnni, avx512, avx_vnni, avx2, sse2, neon_dotprod, neon"
    )


def test_caches_are_read_where_linux_tells_them_and_are_ordinary_elsewhere(tmp_path: Path):
    rows = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"), ("3", "Unified", "491520K")]
    for i, row in enumerate([*rows, ("4", "Unified", "7K"), ("2", "Unified", "large")]):
        (tmp_path / f"index{i}").mkdir()
        for name, text in zip(("level", "type", "size"), row, strict=True):
            (tmp_path / f"index{i}" / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()
    assert caches(tmp_path) == {"l2_bytes": 2 << 20}
    assert caches(tmp_path / "none") == {}


def test_code_has_no_instruction_that_was_not_asked_for():
    wide = ["AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL", "AVX512VNNI", "AVX512BF16"]
    required = ["AVX2", "AVX2", "F16C", "FMA3", *wide, "AMX_TILE", "AMX_BF16", "AMX_INT8"]
    assert INSTRUCTION_SETS["amx_int8"].required == required
    assert INSTRUCTION_SETS["avx_vnni"].required == [*required[:4], "AVX_VNNI"]
    assert INSTRUCTION_SETS["sse2"].required == ["SSE2"]
    assert INSTRUCTION_SETS["neon_dotprod"].required == ["ASIMD", "ASIMD", "ASIMDDP"]
