"""Threads unless they are given: the smallest of affinity, physical cores and CPU quota, by fake /sys and /proc."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import fields
from subjects.commands import run_runtime as command
from subjects.small_programs import rich, save

import runtime
from compiler import Program, ops, sgd
from runtime import usable_cores as of_machine
from runtime.codegen.costs import MIN_CHUNK_CYCLES
from runtime.codegen.lowering.useful_threads import step_cycles, useful_threads
from runtime.usable_cores import cpu_quota, physical_cores, usable_cores, why_too_many

V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
V1_MOUNT = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def siblings(*lists: str) -> dict[str, str]:
    """Return the files of CPUs that have these siblings."""
    name = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    return {name.format(cpu): f"{text}\n" for cpu, text in enumerate(lists)}


def v2(path: str, **limits: str) -> dict[str, str]:
    """Return the files of version 2; `limits` are of groups by their names, with _ for /, the root group is `_`."""
    files = {"proc/self/mountinfo": V2_MOUNT, "proc/self/cgroup": f"0::{path}\n"}
    return files | {f"sys/fs/cgroup/{name.replace('_', '/')}/cpu.max": f"{text}\n" for name, text in limits.items()}


def v1(path: str, folder: str, quota: str, mount: str = V1_MOUNT) -> dict[str, str]:
    """Return the files of version 1, beside a hierarchy of version 2 without controllers."""
    return {
        "proc/self/mountinfo": mount + V2_MOUNT.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified "),
        "proc/self/cgroup": f"4:memory:/m\n2:cpuacct,cpu:{path}\n0::/\n",
        f"sys/fs/cgroup/cpu/{folder}/cpu.cfs_quota_us": f"{quota}\n",
        f"sys/fs/cgroup/cpu/{folder}/cpu.cfs_period_us": "100000\n",
    }


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, None),
        (v2("/", _="max 100000"), None),
        (v2("/a/b", a_b="250000 100000"), 2.5),
        (v2("/a/b", a_b="max 100000", a="150000 100000"), 1.5),
        (v2("/a/b", a_b="800000 100000", a="300000 100000"), 3.0),
        (v2("/../other", _="400000 100000"), 4.0),
        (v2("/a", a="many 100000"), None),
        (v2("/a", a="100000 0"), None),
        (v1("/docker/c", "docker/c", "350000"), 3.5),
        (v1("/docker/c", "docker", "50000"), 0.5),
        (v1("/docker/c", "docker/c", "-1"), None),
        (v1("/docker/c", "", "200000", V1_MOUNT.replace(" / /sys", " /docker/c /sys")), 2.0),
        ({"proc/self/mountinfo": "nonsense\n", "proc/self/cgroup": "0\n"}, None),
    ],
)
def test_the_quota_is_the_smallest_of_a_control_group_and_its_parents(
    tmp_path: Path, files: dict[str, str], wanted: float | None
):
    assert cpu_quota(put(tmp_path, files)) == wanted


@pytest.mark.parametrize(
    ("lists", "allowed", "wanted"),
    [
        ([], {0, 1, 2}, 3),
        (["0", "1"], {0, 1}, 2),
        (["0-1", "0-1", "2-3", "2-3"], {0, 1, 2, 3}, 2),
        (["0,2", "1,3", "0,2", "1,3"], {0, 1, 2}, 2),
        (["0-1", "0-1", "2-3", "2-3"], {1, 2}, 2),
        (["what", "1"], {0, 1}, 2),
    ],
)
def test_cpus_of_one_core_count_once(tmp_path: Path, lists: list[str], allowed: set[int], wanted: int):
    assert physical_cores(allowed, put(tmp_path, siblings(*lists))) == wanted


@pytest.mark.parametrize(
    ("affinity", "quota", "wanted"),
    [({0, 1, 2, 3}, "max", 2), ({0, 1}, "max", 1), ({0, 2}, "150000", 1), ({0, 2}, "50000", 1), ({0, 3}, "900000", 2)],
)
def test_a_run_takes_the_smallest_and_at_least_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, affinity: set[int], quota: str, wanted: int
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: affinity, raising=False)
    put(tmp_path, siblings("0-1", "0-1", "2-3", "2-3") | v2("/a", a=f"{quota} 100000"))
    assert usable_cores(tmp_path) == wanted


def test_a_system_without_affinity_has_its_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores(tmp_path) == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores(tmp_path) == 1


@pytest.fixture
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("runtime.usable_cores", "runtime.commands.sweeps.runs"):
        monkeypatch.setattr(f"{module}.usable_cores", lambda: 3)


@pytest.mark.usefixtures("three_cores")
def test_the_result_line_has_the_threads_and_bits_do_not_depend_on_them(tmp_path: Path, capsys):
    path = save(rich(), tmp_path)
    found: list[dict[str, str]] = []
    for options in ([], ["--threads", "1"], ["--threads", "auto"]):
        code, out, err = command(capsys, "execute", path, "-q", "--engine", "reference", *options)
        assert (code, err) == (0, "")
        found.append(fields(out[-1]))
    assert [each["threads"] for each in found] == ["3", "1", "3"]
    assert len({each["state_sha256"] for each in found}) == 1


@pytest.mark.usefixtures("three_cores")
def test_a_run_of_the_library_takes_the_same(tmp_path: Path):
    path = save(rich(), tmp_path)
    assert runtime.load(path, engine="reference").session.threads == 3
    assert runtime.load(path, threads=2).session.threads == 2


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize(("width", "threads"), [(4, 1), (1024, 3)])
def test_a_native_step_takes_as_many_threads_as_it_has_work_for(width: int, threads: int):
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    program = Program("layer", seed=1)
    x = program.input("x", "float32", ("batch", width))
    program.minimize(ops.mean(ops.square(x @ program.parameter("w", (width, width)))), sgd(0.1))
    compiled = program.compile(batch=32)
    x = np.random.default_rng(0).normal(size=(32, width)).astype("f4")
    found: dict[int | None, str] = {}
    for given, used in {None: threads, 3: 3, 2: 2}.items():
        run = runtime.Run(compiled, engine="native", threads=given)
        run.step({"x": x})
        assert run.session.threads == used
        found[given] = run.state_sha256
    assert len(set(found.values())) == 1


def test_a_chain_of_short_chunks_takes_few_threads_and_long_ones_many():
    long, short = 100 * MIN_CHUNK_CYCLES, MIN_CHUNK_CYCLES
    assert useful_threads([[long] * 3] * 5, 32) == 3
    assert useful_threads([[long] * 64], 32) == 32
    assert useful_threads([[long]] * 9, 32) == 1
    assert useful_threads([], 32) == 1
    assert useful_threads([[short] * 16] * 4, 32) < 32
    assert useful_threads([[long] * 24], 24) == 24
    assert [step_cycles([[long] * 8], threads) > step_cycles([[long] * 8], 8) for threads in (1, 4, 9)] == [True] * 3


@pytest.mark.thorough
@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize(("jobs", "threads"), [(1, "3"), (2, "1")])
def test_runs_of_a_sweep_share_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, jobs: int, threads: str
):
    told: list[list[str]] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda words, **more: told.append(words) or popen(words, **more))
    code, out, _ = command(capsys, "sweep", save(rich(), tmp_path, epochs=1), "--seeds", "2", "--jobs", jobs)
    assert (code, len(told)) == (0, 2)
    assert {words[words.index("--threads") + 1] for words in told} == {threads}
    assert not any("--threads" in line for line in out)  # the command that makes a run again needs none


@pytest.mark.parametrize(("cores", "limit", "found"), [
    (1, 64, "the one core"),
    (2, 64, "the 2 cores"),
    (48, 192, "the 48 cores"),
])  # fmt: skip
def test_a_run_has_at_most_64_threads_or_4_for_each_core(cores: int, limit: int, found: str, monkeypatch):
    monkeypatch.setattr(of_machine, "usable_cores", lambda: cores)
    assert why_too_many(limit) is None
    assert why_too_many(limit + 1) == (
        f"a run takes at most {limit} threads here; threads beyond {found} of this process make no step faster"
    )


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("threads", [1000, 10**17])
def test_too_many_threads_are_one_sentence(engine, threads, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(of_machine, "usable_cores", lambda: 2)
    path = save(rich(), tmp_path)
    why = "a run takes at most 64 threads here; threads beyond the 2 cores of this process make no step faster"
    for more in ((), ("--sandbox",), ("--max-memory", "1GiB")):
        code, out, err = command(capsys, "execute", path, "-q", "--engine", engine, "--threads", threads, *more)
        assert (code, out) == (2, [])
        assert err.startswith(f"runtime: argument --threads: {threads}: {why}")
    with pytest.raises(runtime.UsageError) as caught:
        runtime.load(path, engine=engine, threads=threads)
    assert str(caught.value) == f"threads={threads}: {why}"
    run = runtime.load(path, engine=engine, threads=64)
    assert runtime.load(path, engine=engine, threads=1).states.sha256() == run.states.sha256()
