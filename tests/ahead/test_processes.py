"""Steps in shards that several processes compute, with the bits of one process: by ctypes, and by MPI in Fortran."""

# pyright: basic

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ahead.hosts import Net, built, needs_cc
from ahead.runs import pointers
from ahead.test_files_and_errors import refused

import prograd
from prograd import Program, adam, global_norm, layers, ops

EXAMPLE = Path(__file__).parents[2] / "examples" / "mpi"
ROWS, SHARDS, NO_ROWS = 64, 4, 8
GATHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)


def program(folder, *, dropout=0.0, shards=SHARDS):
    net = Program("sharded", seed=1)
    x, label = net.input("x", "float32", ("batch", 20)), net.input("label", "int64", ("batch",))
    hidden = ops.relu(layers.dense(x, "hidden", 32))
    hidden = ops.dropout(hidden, ratio=dropout) if dropout else hidden
    logits = layers.dense(hidden, "output", 10)
    net.minimize(ops.cross_entropy(logits, label), adam(1e-2), clip=global_norm(1.0))
    net.metrics(accuracy=ops.accuracy(logits, label))
    net.compile(batch=ROWS, **({"shards": shards} if shards else {})).save(folder / "sharded.pb")
    return folder / "sharded.pb"


def batch(rng):
    label = np.where(rng.random(ROWS) < 0.2, -100, rng.integers(0, 10, ROWS))  # -100 counts in no loss
    return {"x": rng.standard_normal((ROWS, 20)).astype(np.float32), "label": label}


def in_shards(net, feeds, ranks, rank, gather):
    """Make a step of a rank, and return its number and its loss."""
    library, loss = net._library, np.zeros((), np.float32)
    entry = next(
        int(line.split()[2])
        for line in (net.folder / "sharded.h").read_text().splitlines()
        if "TRAIN_SUMS_ENTRY" in line
    )
    library.prograd_shards_bytes.restype = ctypes.c_int64
    room = ctypes.create_string_buffer(library.prograd_shards_bytes(net.self, entry, SHARDS))
    own = ROWS // ranks
    arrays = [np.ascontiguousarray(feeds[name][rank * own : (rank + 1) * own]) for name in ("x", "label")]
    fetches = pointers([loss, None, None])
    code = library.prograd_step_in_shards(
        net.self, entry, SHARDS, pointers(arrays), fetches, rank, ranks, room, GATHER(gather), None
    )
    return code, loss.item()


@needs_cc
@pytest.mark.sampled(4)
@pytest.mark.parametrize("dropout", [0.25, 0.0])
@pytest.mark.parametrize("ranks", [2, 1])
def test_the_sums_of_ranks_make_the_step_of_one_process(tmp_path, ranks, dropout):
    path = program(tmp_path, dropout=dropout)
    nets = [Net(path, tmp_path / "out", "--cpu", "avx2", "--by-shard") for _ in range(ranks)]
    run = prograd.load(path, engine="native.avx2", threads=1)
    step, rng = run.stepper("train", fetch="loss"), np.random.default_rng(0)
    for _ in range(3):
        feeds = batch(rng)
        loss = step(feeds["x"], feeds["label"])
        sums = {}

        def keep(mine, nbytes, all, context, sums=sums):
            sums[len(sums)] = ctypes.string_at(mine, nbytes)
            return 1  # nothing is exchanged yet

        def give(mine, nbytes, all, context, sums=sums):
            ctypes.memmove(all, b"".join(sums.values()), nbytes * ranks)
            return 0

        for rank, net in enumerate(nets):
            assert in_shards(net, feeds, ranks, rank, keep)[0] == NO_ROWS
            assert net.error == "train_sums: the processes cannot exchange sums"
        for rank, net in enumerate(nets):
            assert in_shards(net, feeds, ranks, rank, give) == (0, loss)
            assert net.sha256() == run.states.sha256()
    assert in_shards(nets[0], feeds, 3, 0, give)[0] == NO_ROWS
    assert nets[0].error == "train_sums: the number of shards is no multiple of the number of processes"
    assert in_shards(nets[0], feeds, ranks, -1, give)[0] == NO_ROWS
    assert nets[0].error == "train_sums: the number of this process is not from 0 to that of all less one"


@pytest.mark.thorough
@pytest.mark.skipif(not (shutil.which("mpif90") and shutil.which("mpiexec")), reason="there is no MPI for Fortran")
def test_a_model_in_fortran_trains_by_mpi_to_one_hash(tmp_path):
    for name in ("subgrid.py", "host.f90"):
        shutil.copy(EXAMPLE / name, tmp_path)
    subprocess.run([sys.executable, "subgrid.py"], cwd=tmp_path, check=True)
    folder = built(tmp_path / "subgrid.pb", tmp_path / "out", "--by-shard", "--cpu", "avx2")
    sources = sorted(path.name for path in folder.glob("prograd*.c"))
    subprocess.run(["cc", "-O2", "-c", *sources], cwd=folder, check=True)
    objects = [name.replace(".c", ".o") for name in sources]
    fortran = ["mpif90", "-O2", "subgrid.f90", "../host.f90", *objects, "-L.", "-lsubgrid", "-o", "host"]
    subprocess.run(fortran, cwd=folder, check=True)
    said = {
        subprocess.run(["mpiexec", "-n", str(ranks), "./host"], cwd=folder, capture_output=True, text=True, check=True)
        .stdout
        for ranks in (1, 2, 4)
    }  # fmt: skip
    assert len(said) == 1
    losses = [float(line.split()[-1]) for line in said.pop().splitlines()[:-1]]
    assert len(losses) == 5
    assert losses[-1] < 0.5 * losses[0]


def test_steps_without_shards_are_refused(tmp_path, capsys):
    path = program(tmp_path, shards=0)
    assert refused(capsys, path, "-o", tmp_path / "out", "--by-shard") == (
        "compiler: entry 'train' has no shards to compute apart; compile the program in shards, as in "
        "compile(batch=256, shards=8)"
    )
    path.unlink()
    net = Program("named")
    x = net.input("number of the shard", "float32", ("batch", 3))
    net.minimize(ops.mean(ops.square(layers.dense(x, "only", 1))), adam(1e-2))
    net.compile(batch=8, shards=2).save(tmp_path / "named.pb")
    assert refused(capsys, tmp_path / "named.pb", "-o", tmp_path / "out", "--by-shard") == (
        "compiler: entry 'train' has a feed named 'number of the shard', which --by-shard adds; rename it"
    )
    path = program(tmp_path)
    assert refused(capsys, path, "-o", tmp_path / "out", "--by-shard", "--entry", "predict").startswith(
        "compiler: there is no entry 'predict'"
    )
    assert refused(capsys, path, "-o", tmp_path / "out", "--by-shard", "--entry", "evaluate") == (
        "compiler: --by-shard: no step that is built trains; build an entry that does"
    )
