"""Runs one program by several processes in every way there is here, and compares the states with those of one process.

    python tests/rank_matrix.py                              # MPICH of the package mpich, in shared memory
    python tests/rank_matrix.py --openmpi /opt/openmpi       # and Open MPI of that folder
    sudo python tests/rank_matrix.py --namespaces            # and by TCP between two network namespaces, by UCX and OFI

Each number of ranks runs with whole states of the optimizer and with states that are cut. The program has dropout,
batch norm, ignored labels, clipping by the global norm and smaller last steps. With
`--namespaces` the link between the two is also cut in the middle of a run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from subjects.ranks import Ended, Launcher, alone, mpich, save_network

ENGINES = ("reference", "native")
RANKS = (1, 2, 3, 4, 8)
STEPS = 16
DEADLINE = 10

SSH = """#!/bin/sh
# a stand-in for ssh: the namespace of a host, with a host name of its own
while :; do case "$1" in -*) shift;; *) break;; esac; done
host=$1; shift
case $host in 10.77.0.1) name=prograd-a;; *) name=prograd-b;; esac
exec ip netns exec $name unshare -u sh -c "hostname $name; $*"
"""


class Matrix:
    """The runs, and the number of those that went wrong."""

    def __init__(self, folder: Path, deadline: int = DEADLINE) -> None:
        self.folder, self.deadline, self.wrong, self.made = folder, deadline, 0, 0
        save_network(folder)
        self._wanted = {engine: alone(self.words(engine), folder).field("state_sha256") for engine in ENGINES}

    def words(self, engine: str, *more: str) -> list[str]:
        """Return the words of a run."""
        return ["execute", "net.pb", "-q", "--threads", "1", "--engine", engine, *more]

    def run(self, launcher: Launcher, count: int, words: list[str], seconds: float = 900) -> Ended:
        """Return the end of a job."""
        command = [*launcher.command, "-n", str(count), sys.executable, "-m", "runtime", *words, "--mpi"]
        everything = {**os.environ, **launcher.environment}
        done = subprocess.run(command, cwd=self.folder, env=everything, capture_output=True, text=True, timeout=seconds)
        return Ended(done.returncode, done.stdout, done.stderr)

    def compare(self, what: str, engine: str, ended: Ended) -> None:
        """Print whether a job reached the states of one process."""
        good = ended.code == 0 and ended.field("state_sha256") == self._wanted[engine]
        self.made += 1
        self.wrong += not good
        print(f"{'ok   ' if good else 'WRONG'} {what}, {engine}{'' if good else f': {ended}'}", flush=True)

    def ways(self, name: str, launcher: Launcher, counts: tuple[int, ...] = RANKS) -> None:
        """Run with each number of ranks, and a run that goes on with others, one of which is killed."""
        for engine in ENGINES:
            for count in counts:
                for more in ([], ["--zero"]):
                    what = " ".join([f"{name}, {count} ranks", *more])
                    self.compare(what, engine, self.run(launcher, count, self.words(engine, *more)))
            self.compare(f"{name}, 4 ranks, killed, then 1, 2 and 8", engine, self._continued(launcher, engine))

    def _continued(self, launcher: Launcher, engine: str) -> Ended:
        kept = ["--checkpoint", "kept", "--every", "2", "--collective-timeout", str(self.deadline)]
        shutil.rmtree(self.folder / "kept", ignore_errors=True)
        for count, fault, more in ((4, "killed:2:6", ["--zero"]), (1, "killed:0:4", []), (2, "killed:1:4", [])):
            resume = ["--resume"] if count < 4 else []
            script = [sys.executable, str(Path(__file__).parent / "faulty_rank.py"), fault]
            command = [*launcher.command, "-n", str(count), *script, *self.words(engine, *kept, *resume, *more)]
            beginning = self.folder / "fault-begins-at"
            beginning.unlink(missing_ok=True)
            everything = {**os.environ, **launcher.environment}
            killed = subprocess.run([*command, "--mpi"], cwd=self.folder, env=everything, capture_output=True)
            assert killed.returncode, "a killed rank ends the job"
            assert beginning.exists(), f"{fault} did not happen: {killed}"
        return self.run(launcher, 8, self.words(engine, *kept, "--resume", "--zero"))


@contextmanager
def namespaces(folder: Path, openmpi: Path | None) -> Generator[list[tuple[str, Launcher]]]:
    """Make two network namespaces with a link; yield launchers that have a host in each."""
    script = folder / "ssh"
    script.write_text(SSH)
    script.chmod(0o755)
    names = ("prograd-a", "prograd-b")
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        link = ["ip", "link", "add", "va", "netns", names[0], "type", "veth", "peer", "name", "vb", "netns", names[1]]
        subprocess.run(link, check=True)
        for number, (name, end) in enumerate(zip(names, ("va", "vb"), strict=True), 1):
            for words in (
                ["addr", "add", f"10.77.0.{number}/24", "dev", end],
                ["link", "set", end, "up"],
                ["link", "set", "lo", "up"],
            ):
                subprocess.run(["ip", "-n", name, *words], check=True)
        local = mpich()
        assert local is not None, "there is no mpiexec"
        hosts = ["-launcher", "ssh", "-launcher-exec", str(script), "-hosts", "10.77.0.1,10.77.0.2", "-ppn", "1"]
        inside = ["ip", "netns", "exec", names[0], "unshare", "-u", "sh", "-c", 'hostname prograd-a; exec "$@"', "sh"]
        # One kernel would offer shared memory in spite of the link, and UCX may take the loopback device.
        ways = {
            "MPICH with UCX": {"MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_TLS": "tcp", "UCX_NET_DEVICES": "va,vb"},
            "MPICH with OFI": {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"},
        }
        command = [*inside, *local.command, *hosts]
        found = [(name, Launcher(command, local.environment | network)) for name, network in ways.items()]
        if openmpi is not None:
            found.append(("Open MPI", open_mpi(openmpi, inside, script)))
        yield found
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def open_mpi(folder: Path, inside: list[str] | None = None, agent: Path | None = None) -> Launcher:
    """Return a launcher of Open MPI: on this host, or by TCP on a host in each of two namespaces."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    library = {"MPI4PY_LIBMPI": str(folder / "lib" / "libmpi.so.40"), **allowed}
    command = [str(folder / "bin" / "mpiexec"), "--oversubscribe", "--bind-to", "none"]
    if inside is None:
        return Launcher(command, library)
    link = ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "10.77.0.0/24"]
    start = ["--prtemca", "plm_ssh_agent", str(agent), "--prtemca", "prte_if_include", "10.77.0.0/24"]
    hosts = ["--host", "10.77.0.1:4,10.77.0.2:4", "--map-by", "node", "-x", "MPI4PY_LIBMPI"]
    return Launcher([*inside, *command, "--prefix", str(folder), *start, *link, *hosts], library)


def sent_bytes() -> int:
    """Return the bytes that the link has sent."""
    words = ["ip", "netns", "exec", "prograd-a", "cat", "/sys/class/net/va/statistics/tx_bytes"]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def switch(to: str) -> None:
    """Switch the link up or down."""
    subprocess.run(["ip", "-n", "prograd-a", "link", "set", "va", to], check=True)


def cut(matrix: Matrix, launcher: Launcher) -> None:
    """Cut the link in the middle of a run, and print how it ends."""
    words = matrix.words("reference", "--epochs", "100000", "--collective-timeout", str(matrix.deadline), "--mpi")
    command = [*launcher.command, "-n", "2", sys.executable, "-m", "runtime", *words]
    everything = {**os.environ, **launcher.environment}
    with subprocess.Popen(command, cwd=matrix.folder, env=everything, stderr=subprocess.PIPE, text=True) as job:
        time.sleep(12)
        switch("down")
        start = time.perf_counter()
        try:
            _, said = job.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            job.kill()
            _, said = job.communicate()
        took = time.perf_counter() - start
    switch("up")
    good = job.returncode != 0 and took < matrix.deadline + 5 and "gave no answer" in said
    matrix.made += 1
    matrix.wrong += not good
    print(f"{'ok   ' if good else 'WRONG'} link cut: code {job.returncode} after {took:.1f} s: {said}", flush=True)


def main() -> int:
    """Run everything that this machine has."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--openmpi", type=Path, help="folder with bin/mpiexec and lib/libmpi.so.40 of Open MPI")
    parser.add_argument("--namespaces", action="store_true", help="also by TCP; needs root")
    parser.add_argument("--skip-local", action="store_true", help="leave out MPICH in shared memory")
    parser.add_argument("--deadline", type=int, default=DEADLINE, help="seconds of --collective-timeout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        matrix = Matrix(Path(name), options.deadline)
        local = mpich()
        if local is not None and not options.skip_local:
            matrix.ways("MPICH, shared memory", local)
        if options.openmpi is not None:
            matrix.ways("Open MPI, shared memory", open_mpi(options.openmpi))
        if options.namespaces:
            with namespaces(matrix.folder, options.openmpi) as launchers:
                for name, launcher in launchers:
                    before = sent_bytes()
                    matrix.ways(f"{name}, TCP between two namespaces", launcher, (2, 3, 4, 8))
                    assert sent_bytes() > before + 1_000_000, "the link carries the sums"
                    cut(matrix, launcher)
    print(f"{matrix.made} runs, {matrix.wrong} wrong")
    return 1 if matrix.wrong or not matrix.made else 0


if __name__ == "__main__":
    sys.exit(main())
