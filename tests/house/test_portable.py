"""Systems without the modules of POSIX: the plain-Python parts import there, train, save, load and predict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HIDE = """
import os, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("sched_getaffinity", "sched_setaffinity", "fork", "register_at_fork", "getuid", "geteuid", "O_NOFOLLOW"):
    if hasattr(os, name):
        delattr(os, name)
import builtins, io
def hidden(open):
    def without_proc(file, *more, **options):
        if isinstance(file, (str, bytes, os.PathLike)) and os.fspath(file).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(file)
        return open(file, *more, **options)
    return without_proc
builtins.open = io.open = hidden(builtins.open)
os.listdir = hidden(os.listdir)
"""
"""Code that hides the modules, the functions of os and the files of Linux that Windows lacks."""

IMPORT = """
import pkgutil
from importlib import import_module
NEEDED = {"llvmlite", "torch", "onnx", "optuna", "mpi4py", "distributed", "sklearn", "matplotlib"}
names = [m.name for room in ("prograd_proto", "registry", "compiler", "runtime", "prograd")
         for m in pkgutil.walk_packages(import_module(room).__path__, room + ".")]
assert len(names) > 700, len(names)
for name in names:
    if not name.endswith("__main__"):
        import_module(name)
"""

TRAIN = """
import numpy as np, prograd
from prograd import Program, adam, layers, ops
program = Program("p", seed=1)
x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "int64", ("batch",))
scores = layers.dense(x, "o", 10)
program.minimize(ops.softmax_cross_entropy(scores, y), adam(0.1))
program.outputs(scores=scores)
program.compile(batch=32).save("p.pb")
run = prograd.load("p.pb", engine=ENGINE)
rng = np.random.default_rng(0)
rows = rng.standard_normal((96, 64)).astype("f"), rng.integers(0, 10, 96)
run.train(data=rows, epochs=2, checkpoint="c", progress=False)
run.save("s.safetensors")
other = prograd.load("p.pb", engine=ENGINE)
other.load("s.safetensors")
np.testing.assert_array_equal(other.predict(rows[0])["scores"], run.predict(rows[0])["scores"])
"""


def without_posix(folder: Path, code: str) -> None:
    done = subprocess.run([sys.executable, "-c", HIDE + code], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.rule
def test_every_module_imports_where_posix_is_missing(tmp_path: Path):
    without_posix(tmp_path, IMPORT)


def test_a_run_trains_saves_and_predicts_where_posix_is_missing(tmp_path: Path):
    without_posix(tmp_path, "ENGINE = 'reference'\n" + TRAIN)


def test_the_native_engine_runs_where_posix_is_missing(tmp_path: Path):
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    other = "import numpy, subprocess, sysconfig; sysconfig.get_config_vars(); sys.platform = 'other'\n"
    without_posix(tmp_path, f"{other}ENGINE = 'native'\n{TRAIN}")
