"""Costs of shards and of runs of several processes.

    python benchmarks/machines.py shards      # one process: a step in 8 shards over a step of one batch
    python benchmarks/machines.py tree        # two processes: sums in the order of the tree over MPI_Allreduce
    python benchmarks/machines.py start       # seconds that --mpi adds to the start of a process

`benchmarks/peers/ranks.py` compares two processes with two of PyTorch.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np

SHARDS = 8
KIB = (64, 256, 1024, 4096, 16384, 45 * 1024)


def launcher(ranks):
    """Return the words and the environment that start `ranks` processes."""
    try:
        found = {Path(path).name: str(path.locate()) for path in files("mpich") or ()}
        return [found["mpiexec.hydra"], "-n", str(ranks)], {"MPI4PY_LIBMPI": found["libmpi.so.12"]}
    except PackageNotFoundError:
        return [shutil.which("mpiexec") or "mpiexec", "-n", str(ranks)], {}


def networks():
    """Yield names, programs, rows of a batch and steps."""
    from cases.networks import lenet, resnet18, transformer

    from compiler import Program, adam, ops
    from prograd import layers

    program = Program("mlp", seed=1)
    x, label = program.input("x", "float32", ("n", 784)), program.input("label", "int64", ("n",))
    h = ops.relu(layers.dense(ops.relu(layers.dense(x, "a", 256)), "b", 128))
    program.minimize(ops.cross_entropy(layers.dense(h, "c", 10), label), adam(1e-3))
    yield "MLP, 256 rows", program, 256, 60
    yield "LeNet, 32 images", lenet(adam(1e-3)), 32, 30
    yield "ResNet-18, 32 images", resnet18(), 32, 4
    yield "transformer, 16 sequences", transformer(adam(1e-3)), 16, 10


def shards():
    """Print the processor time of a step in shards over that of one batch, on one thread of the native engine."""
    import runtime

    print(f"  {'processor time of a step':28}{'ms':>10}{f'{SHARDS} shards':>12}")
    for name, program, batch, steps in networks():
        runs = []
        for options in ({}, {"shards": SHARDS}):
            run = runtime.Run(program.compile(n=batch, **options), engine="native", threads=1)
            rng = np.random.default_rng(1)
            feeds = {
                feed: rng.standard_normal(each.type.shape).astype("float32")
                if each.type.dtype == "float32"
                else rng.integers(0, 10, each.type.shape)
                for feed, each in run.session.bindings("train")[0].feeds.items()
            }
            for _ in range(2):
                run.step(feeds)
            runs.append((run, feeds, []))
        for _ in range(steps):
            for run, feeds, took in runs:
                start = time.process_time()
                run.step(feeds)
                took.append(time.process_time() - start)
        whole, cut = (statistics.median(took) for _, _, took in runs)
        print(f"  {name:28}{whole * 1e3:10.3f}{cut / whole:12.3f}", flush=True)


def tree():
    """Print the time of an exchange beside that of MPI_Allreduce, by turns, medians, two processes."""
    if "PMI_SIZE" not in os.environ and "OMPI_COMM_WORLD_SIZE" not in os.environ:
        words, environment = launcher(2)
        subprocess.run([*words, sys.executable, __file__, "tree"], env=os.environ | environment, check=True)
        return
    from runtime.ranks.exchange import exchange, layout_of, scratch_elements
    from runtime.ranks.join import join

    group = join(60)
    from mpi4py import MPI

    if not group.rank:
        print(f"  {'KiB':>8}{'MPI_Allreduce, ms':>20}{'the tree, ms':>15}{'ratio':>8}")
    for kib in KIB:
        count = kib * 256
        x, y, z = np.ones(count, "f4"), np.empty(count, "f4"), np.empty(count, "f4")
        layout = layout_of(SHARDS, group.rank, group.size, count, 4)
        scratch = [np.empty(size, "f4") for size in scratch_elements(layout, 1)]
        turns = {"mpi": [], "tree": []}
        for _ in range(max(15, min(400, 100_000 // kib))):
            for name, call in (
                ("mpi", lambda x=x, y=y: MPI.COMM_WORLD.Allreduce(x, y)),
                ("tree", lambda x=x, z=z, s=scratch, plan=layout: exchange(group, plan, [[x]], [z], s)),
            ):
                group.barrier()
                start = time.perf_counter()
                call()
                turns[name].append(time.perf_counter() - start)
        theirs, ours = (statistics.median(turns[name]) * 1e3 for name in ("mpi", "tree"))
        if not group.rank:
            print(f"  {kib:8}{theirs:20.3f}{ours:15.3f}{ours / theirs:8.2f}", flush=True)
    group.leave()


def start():
    """Print the seconds of a process of one step, by itself and as one rank of one."""
    from compiler import Program, ops, sgd
    from prograd_proto.files import save

    with tempfile.TemporaryDirectory() as folder:
        program = Program("small", seed=1)
        x = program.input("x", "float32", ("n", 8))
        program.minimize(ops.mean(ops.square(x @ program.parameter("w", (8, 3)))), sgd(0.1))
        save(program.compile(n=4, shards=2).desc, Path(folder) / "p.pb")
        np.save(Path(folder) / "x.npy", np.ones((4, 8), "f4"))
        words = [sys.executable, "-m", "runtime", "execute", "p.pb", "--feed", "x=@x.npy", "--steps", "1", "-q"]
        jobs = {"alone": (words, {}), "mpiexec -n 1": None, "mpiexec -n 2": None}
        for ranks in (1, 2):
            before, environment = launcher(ranks)
            jobs[f"mpiexec -n {ranks}"] = ([*before, *words, "--mpi"], environment)
        took = {name: [] for name in jobs}
        for _ in range(7):
            for name, (command, environment) in jobs.items():
                begin = time.perf_counter()
                subprocess.run(command, cwd=folder, env=os.environ | environment, check=True, capture_output=True)
                took[name].append(time.perf_counter() - begin)
        for name, seconds in took.items():
            print(f"  {name:20}{statistics.median(seconds):8.3f} s")


if __name__ == "__main__":
    for word in sys.argv[1:] or ("shards", "tree", "start"):
        {"shards": shards, "tree": tree, "start": start}[word]()
