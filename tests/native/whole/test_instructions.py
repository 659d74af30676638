"""An engine may be asked for with a set of instructions, and gives the bits of a machine that has no more."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from subjects.commands import fields
from subjects.commands import run_runtime as run
from subjects.small_programs import rich, save

from runtime.codegen.machine import INSTRUCTION_SETS
from runtime.engines.choice import ENGINES, with_instructions
from runtime.engines.native import amx, cpu
from runtime.engines.native.cpu import instruction_sets

HERE = instruction_sets()
ELSEWHERE = next(name for name in INSTRUCTION_SETS if name not in HERE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `p.pb` and its rows."""
    save(rich(), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def forgotten_machine() -> Iterator[None]:
    """Nothing is remembered of this machine, neither before the test nor after it, even if it fails."""
    cpu.this_machine.cache_clear()
    yield
    cpu.this_machine.cache_clear()


def trained(capsys: Any, engine: str, *more: object) -> dict[str, str]:
    code, out, err = run(capsys, "execute", "p.pb", "-q", "--engine", engine, *more)
    assert (code, err) == (0, "")
    return fields(out[-1])


def test_every_set_is_an_engine_by_name():
    assert [name for name in ENGINES if "." in name] == [f"native.{name}" for name in INSTRUCTION_SETS]


@pytest.mark.usefixtures("forgotten_machine")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HERE)
def test_the_result_line_names_the_set_and_its_bits_are_those_of_a_machine_that_has_no_more(
    folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, name: str
):
    asked = trained(capsys, f"native.{name}")
    assert (asked["engine"], asked["instructions"]) == ("native", name)
    features = dict.fromkeys(INSTRUCTION_SETS[name].required, True)
    monkeypatch.setattr(cpu, "cpu_features", lambda: features)
    cpu.this_machine.cache_clear()
    narrow = trained(capsys, "native")
    assert narrow["instructions"] == name
    assert narrow["state_sha256"] == asked["state_sha256"]


def test_a_set_that_the_cpu_does_not_have_is_one_sentence(folder: Path, capsys: Any):
    code, _, err = run(capsys, "execute", "p.pb", "-q", "--engine", f"native.{ELSEWHERE}")
    assert code == 2
    assert err == f"runtime: this CPU cannot run native code for {ELSEWHERE}; it has {', '.join(HERE)}\n"


def test_amx_is_the_best_set_and_the_instruction_for_pairs_is_behind_multiply_adds_on_intel():
    features = dict.fromkeys((*INSTRUCTION_SETS["amx"].required, "SSE2"), True)
    rest = ["avx512", "avx2", "sse2"]
    assert cpu.usable(features, "x86_64") == ["amx", "avx512_bf16", "avx512_vnni", *rest]
    assert cpu.usable(features | {"INTEL": True}, "x86_64") == ["amx", "avx512_vnni", "avx512_bf16", *rest]
    features |= {"INTEL": True, "AMX_TILE": False, "AVX512BF16": False}
    assert cpu.usable(features, "x86_64") == ["avx512_vnni", *rest]
    assert cpu.usable(features | {"AVX512VNNI": False, "AVX_VNNI": True}, "x86_64") == ["avx512", "avx_vnni", *rest[1:]]


def test_the_system_lists_the_features_of_amx_and_the_vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(amx, "CPU_FLAGS", tmp_path / "cpuinfo")
    monkeypatch.setattr(amx.sys, "platform", "linux")
    found: list[dict[str, bool]] = []
    for text in (
        "vendor_id\t: GenuineIntel\nflags\t\t: fpu amx_bf16 sse2 amx_tile amx_int8 avx_vnni\n",
        "vendor_id\t: AuthenticAMD\nflags\t: fpu amx_tiles\n",
        "processor : 0\n",
    ):
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{text}")
        amx.linux_features.cache_clear()
        found.append(amx.linux_features())
    amx.linux_features.cache_clear()
    names = ("AMX_TILE", "AMX_BF16", "AMX_INT8", "AVX_VNNI", "INTEL")
    assert found == [dict.fromkeys(names, True), {}, {}]


@pytest.mark.usefixtures("forgotten_machine")
def test_a_system_that_refuses_tiles_is_one_sentence(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch):
    features = {**cpu.cpu_features(), **dict.fromkeys(INSTRUCTION_SETS["amx_int8"].required, True)}
    monkeypatch.setattr(cpu, "cpu_features", lambda: features)
    monkeypatch.setattr(cpu.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(amx, "system_call", lambda *arguments: errno.EPERM)
    code, _, err = run(capsys, "execute", "p.pb", "-q", "--engine", "native.amx")
    assert code == 2
    assert err == (
        "runtime: the system does not let this process use the tiles of AMX: Operation not permitted; "
        "use the engine 'native'\n"
    )


@pytest.mark.usefixtures("forgotten_machine")
@pytest.mark.skipif("avx512_bf16" not in HERE, reason="the next instruction set after AMX is not here")
def test_the_engine_native_does_without_tiles_that_the_system_refuses(
    folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    features = {**cpu.cpu_features(), **dict.fromkeys(INSTRUCTION_SETS["amx"].required, True)}
    monkeypatch.setattr(cpu, "cpu_features", lambda: features)
    monkeypatch.setattr(amx, "system_call", lambda *arguments: errno.EPERM)
    without_tiles = [name for name in cpu.usable(features, "x86_64") if not name.startswith("amx")]
    assert trained(capsys, "native")["instructions"] == without_tiles[0]


@pytest.mark.parametrize("name", HERE)
def test_a_replay_takes_the_set_of_the_record(folder: Path, capsys: Any, name: str):
    trained(capsys, f"native.{name}", "--record", "run.json")
    assert json.loads(Path("run.json").read_text())["machine"]["instructions"] == name
    for engine in ([], ["--engine", "native"], ["--engine", f"native.{name}"]):
        code, out, err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json", *engine)
        assert (code, err, fields(out[-1])["instructions"]) == (0, "", name)
    code, _, err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json", "--engine", f"native.{ELSEWHERE}")
    assert (code, err.partition("; leave ")[2]) == (2, f"--engine native.{ELSEWHERE} out\n")


def test_of_a_set_that_is_not_here_a_replay_takes_the_best_and_says_what_was_there(folder: Path, capsys: Any):
    trained(capsys, "native", "--record", "run.json")
    record = json.loads(Path("run.json").read_text())
    record["machine"]["instructions"] = ELSEWHERE
    Path("run.json").write_text(json.dumps(record | {"state_sha256": "ab" * 32}))
    code, _, err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json")
    assert code == 1
    assert err.endswith(f"; this may be why: instructions was {ELSEWHERE}, is {HERE[0]}\n")


def test_an_engine_without_sets_keeps_its_name():
    assert with_instructions("reference", "") == "reference"
    assert with_instructions("reference", "avx2") == "reference"
    assert with_instructions("native", "") == "native"
    assert with_instructions("native", "of tomorrow") == "native"
