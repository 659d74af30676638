"""The refusals of runs of several processes, word for word."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from subjects.commands import told
from subjects.ranks import LAUNCHER, job, save_network, starts_jobs

from compiler import Program, ops, sgd
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from runtime.check import check_program
from runtime.errors import UsageError
from runtime.ranks.deal import dealt
from runtime.ranks.join import launched, number_by_launcher, require_alone, without_launcher
from runtime.target import TARGET


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program of two shards, and its rows."""
    folder = tmp_path_factory.mktemp("refused")
    save_network(folder, shards=2)
    return folder


def small(shards: int = 4) -> pb.ProgramDesc:
    """Return a program with shards."""
    program = Program("small", seed=1)
    x = program.input("x", "float32", ("batch", 8))
    w = program.parameter("w", (8, 3))
    program.minimize(ops.mean(ops.square(x @ w)), sgd(0.1))
    return program.compile(batch=16, shards=shards).desc


def trained(program: pb.ProgramDesc) -> pb.BlockDesc:
    """Return the bound block of the training."""
    return program.blocks[next(e for e in program.entries if e.name == "train").bindings[0].block]


@starts_jobs
def test_several_processes_without_the_option_are_refused(folder):
    ended = job(2, ["execute", "net.pb"], folder, LAUNCHER)
    assert ended.code == 2
    assert "OK" not in ended.out
    assert (
        "runtime: a launcher started 2 processes, and each would make the whole run; "
        "--mpi lets them share it, and without it one process is enough\n" in ended.err
    )


@starts_jobs
def test_more_processes_than_shards_are_refused_by_one_sentence(folder):
    ended = job(3, ["execute", "net.pb", "-q", "--mpi"], folder, LAUNCHER)
    assert ended.code == 2
    said = [line for line in ended.err.splitlines() if line.startswith("runtime:")]
    assert said == [
        "runtime: rank 0 of 3: a step of the entry 'train' has 2 shards, and there are 3 processes; "
        "compile the program with at least as many, as in compile(batch=..., shards=3)"
    ]


@starts_jobs
def test_a_library_that_is_not_that_of_the_launcher_is_refused(folder):
    words = [sys.executable, "-m", "runtime", "execute", "net.pb", "--mpi"]
    everything = {**os.environ, **LAUNCHER.environment, "OMPI_COMM_WORLD_SIZE": "4"}
    done = subprocess.run(words, cwd=folder, env=everything, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (
        "runtime: the launcher started 4 processes, and the MPI library of this process knows of 1; "
        "take the mpiexec that came with the library, or let MPI4PY_LIBMPI name the library of your mpiexec\n"
    )


def test_the_words_of_launchers_are_known():
    assert launched({}) == launched({"SLURM_NTASKS": "8"}) == 0, "a batch script of Slurm is one process"
    assert launched({"PMI_SIZE": "3"}) == launched({"OMPI_COMM_WORLD_SIZE": "3"}) == 3
    assert launched({"SLURM_STEP_NUM_TASKS": "3"}) == 3
    assert number_by_launcher({"PMI_RANK": "2"}) == 2
    assert without_launcher({"PMI_SIZE": "3", "PMI_RANK": "1", "HOME": "/"}) == {"HOME": "/"}


def test_one_process_of_a_launcher_needs_no_option(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PMI_SIZE", "1")
    require_alone()
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(UsageError):
        require_alone()


def test_a_file_cannot_exchange_values():
    program = dealt(small(), 1, 2)
    check_program(program, TARGET, is_dealt=True)
    number = next(op.id for op in trained(program).ops if op.type == "all_reduce")
    block = next(e for e in program.entries if e.name == "train").bindings[0].block
    assert told(ProgramError, lambda: check_program(program, TARGET)) == (
        f"block {block}: op {number} (all_reduce): it exchanges values between processes; a run with --mpi inserts "
        "such ops, and no file has them"
    )


def test_sums_in_another_order_than_that_of_the_tree_are_refused():
    program = small()
    joins = [op for op in trained(program).ops if op.type == "join_shards"]
    joins[-1].attributes[1].int_value = 1
    with pytest.raises(ProgramError) as caught:
        dealt(program, 0, 2)
    assert str(caught.value) == f"op {joins[-1].id} (join_shards): the sums over shards 0 to 4 form no balanced tree"


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_rank_has_the_products_of_its_own_shards_only(ranks):
    program = small()
    products = [op.type for op in trained(program).ops].count("matmul")
    mine = [[op.type for op in trained(dealt(program, r, ranks)).ops].count("matmul") for r in range(ranks)]
    assert sum(mine) == products
    assert max(mine) - min(mine) <= products // 4
