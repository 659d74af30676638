"""Training steps of two processes of one thread, beside DDP of PyTorch with gloo, and of one process of each.

    python benchmarks/peers/ranks.py                # with the mpiexec of the package mpich, else that of PATH

Each cell is a job of its own; jobs alternate for three rounds, and a cell is the median of their medians. A batch is
that of the subject, shared by the processes.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

NAMES = ("mlp, adam, 256", "resnet18, sgd, 32", "transformer, adam, 8")
SECONDS = float(os.environ.get("SECONDS_PER_JOB", "3"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))


def launcher():
    """Return the words and the environment that start two processes."""
    try:
        found = {Path(path).name: str(path.locate()) for path in files("mpich") or ()}
        return [found["mpiexec.hydra"], "-n", "2"], {"MPI4PY_LIBMPI": found["libmpi.so.12"]}
    except PackageNotFoundError:
        return [shutil.which("mpiexec") or "mpiexec", "-n", "2"], {}


def prograd(subject, ranks, *, zero=False):
    """Return a function that makes a step."""
    import in_prograd
    from subjects import rows

    import runtime
    from runtime.ranks.join import join

    group = join(60, cuts_states=zero) if ranks > 1 else None
    sizes = {"batch": subject.batch, **({"shards": ranks} if ranks > 1 else {})}
    compiled = in_prograd.program(subject).compile(**sizes)
    run = runtime.Run(compiled, engine="native", threads=1, group=group)
    x, y = rows(subject)
    feeds = {"x": x[: subject.batch], "y": y[: subject.batch]}
    return lambda: run.step(feeds), 0 if group is None else group.rank


def torch(subject, ranks):
    """Return a function that makes a step."""
    import in_torch
    import torch as t
    from subjects import rows

    t.set_num_threads(1)
    is_image = len(subject.shape) == 3
    layers, inputs = in_torch.model(subject, channels_last=is_image)
    layers.training = True
    rank = int(os.environ.get("PMI_RANK", "0"))

    class Network(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.made = t.nn.ParameterList([p for p in layers.parameters() if p.requires_grad])

        def forward(self, x):
            return subject.network(layers, x)

    network = Network()
    if ranks > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("PORT", "29511")}
        t.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
        network = t.nn.parallel.DistributedDataParallel(network)
    optimizer = in_torch.OPTIMIZERS[subject.optimizer](list(network.parameters()), subject.rate)
    each = subject.batch // ranks
    x, y = (values[rank * each : (rank + 1) * each] for values in rows(subject))
    x, y = inputs(x), t.from_numpy(y)

    def step():
        h = network(x)
        loss = t.nn.functional.cross_entropy(h.flatten(0, -2), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, rank


def child(kind, name, ranks):
    """Print the median of the seconds of a step."""
    from subjects import SUBJECTS

    kinds = {"prograd": prograd, "zero": partial(prograd, zero=True), "torch": torch}
    step, rank = kinds[kind](SUBJECTS[name], ranks)
    for _ in range(3):
        step()
    start = time.perf_counter()
    step()
    count = max(3, int(SECONDS / max(time.perf_counter() - start, 1e-4) / 2))
    if ranks > 1:  # all ranks make as many steps
        count = {"mlp, adam, 256": 400}.get(name, 6)
    took = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        took.append(time.perf_counter() - start)
    if not rank:
        print(statistics.median(took), flush=True)
    os._exit(0) if ranks > 1 and kind == "torch" else None


def measured(kind, name, ranks, turn):
    """Return the median of a job."""
    words = [sys.executable, __file__, kind, name, str(ranks)]
    environment = {**os.environ, "PORT": str(29500 + turn), "OMP_NUM_THREADS": "1"}
    if ranks > 1:
        before, more = launcher()
        words, environment = [*before, *words], environment | more
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    if not done.stdout:
        raise SystemExit(f"{kind}, {name}: {done.stderr}")
    return float(done.stdout.split()[0])


def main():
    """Print the table."""
    cells = [*((kind, ranks) for kind in ("torch", "prograd") for ranks in (1, 2)), ("zero", 2)]
    heads = "".join(f"{f'{kind} x {ranks}':>14}" for kind, ranks in cells)
    print(f"  {'ms of a step':24}{heads}   faster: 1, 2, 2 with --zero")
    for name in sys.argv[1:] or NAMES:
        asked = [cell for cell in cells if cell[0] != "zero" or "sgd" not in name]  # sgd has no states
        turns = [[measured(kind, name, ranks, turn) for kind, ranks in asked] for turn in range(ROUNDS)]
        medians = [statistics.median(column) for column in zip(*turns, strict=True)]
        one, two, ours, both, *cut = medians
        row = "".join(f"{value * 1e3:14.3f}" for value in medians)
        faster = ", ".join(f"{value:.2f}" for value in (one / ours, two / both, *(two / each for each in cut)))
        print(f"  {name:24}{row}   {faster}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in ("prograd", "zero", "torch"):
        child(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        main()
