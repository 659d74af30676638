"""States of the optimizer that are cut among processes (`--zero`): the result line of one process judges them."""

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from subjects.commands import told

pytest.importorskip("mpi4py", reason="mpi4py is an extra")
from subjects import cut_optimizers
from subjects.ranks import ENGINES, LAUNCHER, alone, job, run_of, save_network, starts_jobs

from compiler import Program, adam, ops, sgd
from compiler.train.trust_ratios import adafactor, lamb
from prograd import layers
from prograd_proto import ProgramError
from prograd_proto.byte_sizes import exact_size
from runtime.errors import ResourceLimit
from runtime.memory.limit import MemoryLimit
from runtime.ranks.deal import dealt
from runtime.ranks.pieces import pieces_of
from runtime.runs.states import new_states


@pytest.mark.sampled(2)
@starts_jobs
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "names",
    [("rmsprop", "average"), pytest.param(tuple(cut_optimizers.OPTIMIZERS), marks=pytest.mark.thorough)],
    ids=["some", "all"],
)
def test_optimizers_that_work_by_elements_keep_their_bits(names, engine, tmp_path):
    ended = job(3, [engine, *names], tmp_path, LAUNCHER, program=[sys.executable, cut_optimizers.__file__])
    assert ended.code == 0, ended
    assert ended.out.splitlines() == [f"{name} equal smaller" for name in names]


@pytest.mark.thorough
@starts_jobs
@pytest.mark.parametrize("engine", ENGINES)
def test_checkpoints_are_whole_and_any_number_of_processes_goes_on(engine, folder):
    kept = ["--checkpoint", f"run-{engine}", "--every", "4"]
    last = folder / f"run-{engine}" / "step-0000000016.safetensors"
    saved = [folder / f"{engine}-{name}.safetensors" for name in ("cut", "one")]
    cut = job(4, run_of(engine, *kept, "--mpi", "--zero", "--save", str(saved[0])), folder, LAUNCHER)
    assert cut.code == 0, cut
    one = alone(run_of(engine, "--checkpoint", f"one-{engine}", "--every", "4", "--save", str(saved[1])), folder)
    assert cut.field("state_sha256") == one.field("state_sha256")
    assert int(cut.field("state")) < 0.6 * int(one.field("state"))
    assert saved[0].read_bytes() == saved[1].read_bytes()
    assert last.read_bytes() == (folder / f"one-{engine}" / last.name).read_bytes()
    for count, more in ((3, ["--zero"]), (2, [])):
        os.remove(last)
        ended = job(count, run_of(engine, *kept, "--resume", "--mpi", *more), folder, LAUNCHER)
        assert ended.code == 0, ended
        assert ended.field("state_sha256") == one.field("state_sha256")


@pytest.mark.thorough
@starts_jobs
def test_the_best_states_are_cut_too(tmp_path):
    save_network(tmp_path, keep_best=True)
    kept = ["--checkpoint", "kept", "--every", "4"]
    cut = job(2, run_of("native", *kept, "--mpi", "--zero"), tmp_path, LAUNCHER)
    assert cut.code == 0, cut
    one = alone(run_of("native", "--checkpoint", "one", "--every", "4"), tmp_path)
    assert cut.field("state_sha256") == one.field("state_sha256")
    names = sorted(os.listdir(tmp_path / "kept"))
    assert [n for n in names if n.startswith("step")] == [
        n for n in sorted(os.listdir(tmp_path / "one")) if "step" in n
    ]
    newest = [name for name in names if name.startswith("step")][-1]
    assert (tmp_path / "kept" / newest).read_bytes() == (tmp_path / "one" / newest).read_bytes()
    ended = job(3, run_of("native", *kept, "--mpi", "--zero", "--resume"), tmp_path, LAUNCHER)
    assert ended.field("state_sha256") == one.field("state_sha256")


@starts_jobs
def test_the_option_without_mpi_is_refused(folder):
    ended = alone(run_of("reference", "--zero"), folder)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "runtime: --zero cuts states among the processes of a run; give --mpi\n"


@starts_jobs
def test_reproducers_of_cut_states_are_refused(folder):
    words = run_of("reference", "--mpi", "--zero", "--check-nan", "--reproduce", "kept")
    ended = job(2, words, folder, LAUNCHER)
    assert ended.code == 2
    sentence = "runtime: --reproduce keeps whole states, and --zero cuts them; leave one of them out\n"
    assert sentence in ended.err


def test_a_whole_state_counts_for_the_limit_of_memory():
    program = program_with(adam(1e-2))
    two = SimpleNamespace(rank=0, size=2, cuts_states=True)
    pieces = pieces_of(program, dealt(program, 0, 2, cuts_states=True), two)
    memory = MemoryLimit()
    states = new_states(program, Path(), memory, pieces)
    assert memory.taken == states.nbytes + 4 * 64 * 32
    assert told(ResourceLimit, lambda: new_states(program, Path(), MemoryLimit(memory.taken - 1), pieces)) == (
        f"with one whole state, which checkpoints and hashes need, the run needs {exact_size(memory.taken)}, "
        f"and the limit is {exact_size(memory.taken - 1)}; allow more by max_memory"
    )


def program_with(optimizer):
    """Return a program with 64 x 32 weights and four shards."""
    program = Program("refused", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    program.minimize(ops.mean(ops.square(layers.dense(x, "only", 32))), optimizer)
    return program.compile(batch=16, shards=4).desc


def test_an_optimizer_that_needs_whole_tensors_is_refused():
    assert re.fullmatch(
        r"op \d+ \(sum\) needs all elements of %square_\d+, so the states of this optimizer cannot be cut among "
        "processes; leave --zero out, or take an optimizer that works element by element, as adam does",
        told(ProgramError, lambda: dealt(program_with(lamb(1e-2)), 0, 2, cuts_states=True)),
    )


@pytest.mark.parametrize("optimizer", [sgd, adafactor])
def test_an_optimizer_without_large_states_is_refused(optimizer):
    assert told(ProgramError, lambda: dealt(program_with(optimizer(0.1)), 0, 2, cuts_states=True)) == (
        "--zero cuts the states of the optimizer among processes, and no step in shards updates one of at least "
        "1024 elements; leave it out"
    )
