"""Programs with every buffer of native code between forbidden pages; and whether the guards find what is wrong."""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np
import pytest

if sys.platform != "linux":
    pytest.skip("guards take pages by mprotect, and programs run in forked processes", allow_module_level=True)

from guards import campaign, programs, trials
from guards.engine import guarded
from guards.pages import PAGE, SLACK, UNWRITTEN, Overrun, Region, offsets_of
from mutations import good_programs, mutated

from compiler import Program
from prograd_proto import program_pb2 as pb
from registry.ops.scatter import is_last_index
from runtime import Run
from runtime.codegen.code import ARENA, FIXED_BASES
from runtime.errors import OutOfRange

GOLDEN = [path for path in programs.files() if "golden" in path.parts]
SETS = [name for name in ("avx512", "avx2") if name in trials.instruction_sets()] or [""]


def test_indices_of_a_shape_without_elements_are_refused_and_write_nothing():
    program = Program("last")
    i = program.input("i", "int64", (3, 1))
    program.outputs(y=is_last_index(i, shape=(0,)))
    sentences = []
    for engine in ("reference", "native"):
        run = Run(program.compile().desc, engine=engine)
        executor = run.session.workspaces.executor(run.session.bindings("predict")[0])
        executor.feeds["i"][...] = [[500], [7], [7]]
        with pytest.raises(OutOfRange, match="index 500 is out of range: there are 0 places") as error:
            executor.step()
        assert executor.feeds["i"].tolist() == [[500], [7], [7]], engine
        sentences.append(str(error.value))
    assert sentences[0] == sentences[1]


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (1,)])
def test_indices_of_few_places_touch_no_memory_beside_buffers(shape: tuple[int, ...]):
    def tried(seed: int, folder: Path) -> str:
        program = Program("last")
        program.outputs(y=is_last_index(program.input("i", "int64", (3, 1)), shape=shape))
        program.compile().save(folder / "last.pb", force=True)
        return trials.trial(folder / "last.pb", seed)

    counts = campaign.run(tried, 10, 1, 1)
    assert campaign.FAULT not in counts


@pytest.mark.thorough
@pytest.mark.parametrize("instructions", SETS)
@pytest.mark.parametrize("name", programs.NETWORKS)
def test_a_network_of_ordinary_size_stays_in_its_buffers(
    name: str, instructions: str, capsys: pytest.CaptureFixture[str]
):
    raw = programs.as_bytes(name)

    def tried(seed: int, folder: Path) -> str:
        path = folder / "network.pb"
        path.write_bytes(raw)
        return trials.trial(path, seed, instructions, [trials.WAYS[seed]], most=1 << 30)

    counts = campaign.run(tried, SETS.index(instructions), 1, 1)
    assert counts == {"ran": 1}, capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_program_stays_in_its_buffers(path: Path, capsys: pytest.CaptureFixture[str]):
    def tried(seed: int, folder: Path) -> str:
        return trials.trial(path, seed, ways=trials.WAYS[:1], most=1 << 30)

    counts = campaign.run(tried, 0, 1, 1)
    assert campaign.FAULT not in counts, capsys.readouterr().out


@pytest.mark.thorough
def test_programs_changed_at_random_stay_in_their_buffers(capsys: pytest.CaptureFixture[str]):
    """`python tests/mutations.py --guard --count 100000 --jobs 2` tries more of them."""
    good_programs()
    counts = campaign.run(lambda seed, folder: trials.mutation(mutated(seed), folder, seed), 0, 150, 1)
    assert campaign.FAULT not in counts, capsys.readouterr().out
    assert counts["ran"] >= 15, "enough changes pass the check to try what is behind it"
    assert counts["ProgramError"] >= 45


# The guards themselves


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("size", [0, 1, 64, PAGE - 1, PAGE, PAGE + 3])
def test_a_buffer_touches_a_forbidden_page_at_its_guarded_side(size: int, end: bool):
    region = Region([8, size, 8], end)
    at = offsets_of([8, size, 8], end)
    assert (at[1] + size * end) % PAGE == 0
    assert (region.memory[at[1] : at[1] + size] == UNWRITTEN).all()
    region.require_untouched()


@pytest.mark.parametrize("end", [True, False])
def test_a_byte_beside_a_buffer_is_found(end: bool):
    region = Region([100, 100], end)
    at = offsets_of([100, 100], end)[1]
    beside = at - 1 if end else at + 100
    assert region.memory[beside] == SLACK
    region.memory[beside] = 0
    with pytest.raises(Overrun, match=rf"bytes {'before' if end else 'behind'} buffer 1 of 2 were written"):
        region.require_untouched()


@pytest.mark.thorough
def test_a_campaign_goes_on_after_what_kills_a_process(capsys: pytest.CaptureFixture[str]):
    def tried(seed: int, folder: Path) -> str:
        if seed == 2:
            region = Region([8], True)
            ctypes.memset(region.memory.ctypes.data + offsets_of([8], True)[0] + 8, 0, 1)
        if seed == 4:
            raise AssertionError("what is wrong")
        if seed == 5:
            os._exit(3)
        return "ran"

    counts = campaign.run(tried, 0, 8, 2)
    assert counts == {"ran": 5, campaign.FAULT: 3}
    said = capsys.readouterr().out
    assert "seed 2: the process ended with SIGSEGV" in said
    assert "seed 4: AssertionError: what is wrong" in said
    assert "seed 5: the process ended with exit code 3" in said


def test_all_memory_of_code_is_guarded(tmp_path: Path):
    program = programs.network("mlp").compile().desc
    with guarded(True):
        run = Run(program, engine="guarded")  # type: ignore[arg-type]
        executor = run.session.workspaces.executor(run.session.bindings("train")[0])
        states = [array for array in run.states.arrays.values() if array.nbytes]
        feeds = [array for array in executor.feeds.values() if array.nbytes]
        step = executor._compiled  # type: ignore[attr-defined]
        arrays = step.arrays.values()
    for array in [*states, *feeds]:
        assert (array.ctypes.data + array.nbytes) % PAGE == 0
    known = {array.ctypes.data for array in arrays}
    bases = step.code.words[:, 0]
    own = np.flatnonzero(bases >= len(FIXED_BASES))  # words that lead to states, constants and feeds
    assert known.issuperset(step.words[own].tolist())
    assert known.intersection(step.words[np.flatnonzero(bases == ARENA)].tolist())


def test_bits_that_differ_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = tmp_path / "network.pb"
    path.write_bytes(programs.as_bytes("sorting"))
    real = trials.ran

    def wrong(path: Path, engine: str, *more: int) -> tuple[str, trials.Bits]:
        word, bits = real(path, engine, *more)
        return word, [(name, raw[::-1]) for name, raw in bits] if engine == "guarded" else bits

    monkeypatch.setattr(trials, "ran", wrong)
    with pytest.raises(trials.Differs, match=r"depends on guards \(end=True, 1 threads\)"):
        trials.trial(path)


def test_a_program_of_lies_is_refused_before_any_step(tmp_path: Path):
    path = tmp_path / "empty.pb"
    path.write_bytes(pb.ProgramDesc().SerializeToString())
    assert trials.trial(path) == "ProgramError"
