"""Python with -OO, which leaves out docstrings and assertions: a script trains and saves, and commands work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import numpy as np, prograd
from prograd import Program, adam, layers, ops

assert False, "assertions are left out"
program = Program("p", seed=1)
x, y = program.input("x", "float32", ("batch", 4)), program.input("y", "int64", ("batch",))
program.minimize(ops.softmax_cross_entropy(layers.dense(x, "o", 2), y), adam(0.1))
rows = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
prograd.data.write("rows.safetensors", {"x": rows, "y": (rows[:, 0] > 0).astype("int64")})
program.data("rows.safetensors")
program.training(epochs=3)
program.compile(batch=8).save("p.pb")
for engine in ("reference", "native"):
    run = prograd.load("p.pb", engine=engine)
    print(run.train().steps)
    run.save(engine + ".safetensors")
"""


def test_programs_and_commands_work_without_docstrings_and_assertions(tmp_path: Path):
    def python(*words: str) -> str:
        done = subprocess.run([sys.executable, "-OO", *words], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    (tmp_path / "script.py").write_text(SCRIPT)
    assert python("script.py") == "12\n12\n"
    assert python("-m", "runtime", "execute", "p.pb", "-q").startswith("OK entry=train steps=12 ")
    assert "matmul" in python("-m", "compiler", "ops")
    assert "matmul" in python("-m", "compiler", "show", "p.pb")
