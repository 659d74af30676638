"""Every block of code on every page runs, here or in the test that is named, and every command is one."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest

from compiler.__main__ import main as compiler
from compiler.commands.verbs.command import COMMAND as COMPILER
from compiler.commands.verbs.command import with_verbs_of_two_words
from prograd import Program, adam, data, layers, metrics, ops
from runtime.__main__ import main as runtime
from runtime.command_line.calling import require_consistent
from runtime.command_line.parsing import parsed
from runtime.commands.verbs.command import COMMAND as RUNTIME

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "benchmarks/*.md", "proto/*.md")
    for path in ROOT.glob(pattern)
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^ {4}\$ ((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)

ELSEWHERE = {
    "README.md": "house/test_docs.py",
    "docs/adding-an-op.md": "house/test_docs.py",
    "docs/data.md": "house/test_docs.py",
    "docs/training.md": "house/test_docs.py",
    "docs/control-flow.md": "control/test_page.py",
    "docs/machines.md": "stepping/test_shards.py",
    "docs/estimators.md": "estimators/test_estimators.py",
    "docs/layers.md": "building/test_prograd_layers.py",
    "docs/half-floats.md": "running/test_half_training.py",
    "docs/guide/first-program.md": "house/test_guide.py",
    "docs/guide/data.md": "house/test_guide.py",
    "docs/guide/training.md": "house/test_guide.py",
    "docs/guide/looking.md": "house/test_guide.py",
    "docs/guide/serving.md": "house/test_guide.py",
    "docs/guide/loops.md": "house/test_guide.py",
    "docs/guide/pytorch.md": "house/test_guide.py",
    "docs/guide/images.md": "house/test_guide.py",
    "docs/guide/tables-texts-series.md": "house/test_guide.py",
    "docs/guide/pytorch-trunk.md": "house/test_guide.py",
    "docs/guide/own-loop.md": "house/test_guide.py",
    "docs/guide/intervals.md": "house/test_guide.py",
}
"""The tests that run the Python of other pages."""

HERE = {"docs/index.md", "docs/metrics.md", "docs/native.md", "docs/plugins.md"}


def test_every_page_with_code_has_a_test_that_runs_it():
    with_code = {str(path.relative_to(ROOT)) for path in PAGES if BLOCK.search(path.read_text(encoding="utf-8"))}
    assert with_code == {*ELSEWHERE, *HERE}
    for page, test in ELSEWHERE.items():
        assert Path(page).stem in (ROOT / "tests" / test).read_text(encoding="utf-8"), f"{test} says nothing of {page}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_shows_is_one(page: Path):
    for command in commands(page):
        words = shlex.split(command, comments=True)
        if words[0] in ("runtime", "compiler"):
            called = RUNTIME if words[0] == "runtime" else COMPILER
            require_consistent(parsed(called, with_verbs_of_two_words(words[1:])))  # else SystemExit or UsageError
        elif words[0] == "python":
            assert (ROOT / words[1]).exists(), command
        else:
            assert words[0] in ("pip", "curl", "make", "cc", "openssl", "paddle2onnx"), command


def test_the_page_about_metrics_runs(folder: Path, capsys: pytest.CaptureFixture[str]):
    page = ROOT / "docs/metrics.md"
    assert_runs(folder, BLOCK.findall(page.read_text(encoding="utf-8")))
    assert runtime(words("execute digits.pb -q --metrics run2.jsonl")) == 0
    assert runtime(words("execute digits.pb --entry evaluate -q --fetch roc=@roc.npy")) == 0
    capsys.readouterr()
    for command in commands(page):
        assert runtime(shlex.split(command, comments=True)[1:]) == 0, command
    assert {"curves.svg", "tables.png", "confusion.npy"} <= {path.name for path in folder.iterdir()}


def test_the_first_page_of_the_site_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs/index.md"
    assert_runs(tmp_path, BLOCK.findall(page.read_text(encoding="utf-8")))
    for command in commands(page):
        assert runtime(shlex.split(command, comments=True)[1:]) == 0, command
    assert Path("curves.svg").is_file()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("page", ["docs/reproducibility.md", "docs/commands.md"])
def test_the_commands_of_a_page_do_what_it_says(page: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    found = commands(ROOT / page)
    assert len(found) >= 2
    for command in found:
        name, *arguments = shlex.split(command, comments=True)
        assert {"runtime": runtime, "compiler": compiler}[name](arguments) == 0, command


def test_the_page_about_serving_asks_what_it_serves(folder: Path):
    serve, ask = commands(ROOT / "docs/serving.md")[1:3]  # tests/serving/ asks with rows of tables and images
    address = re.search(r"http://127.0.0.1:8000(\S+)", ask)
    header = re.search(r"-H '([\w-]+): ([^']+)'", ask)
    assert address
    assert header
    command = [sys.executable, "-P", "-m", *shlex.split(serve), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as server:
        assert server.stdout
        ready = server.stdout.readline()
        try:
            url = re.search(r"url=(\S+)", ready)
            assert url, ready
            body = json.dumps(np.zeros((1, 8, 8, 1), int).tolist()).encode()  # what the page writes as [[[[0], …]]]
            with urlopen(Request(url[1] + address[1], body, {header[1]: header[2]})) as answer:
                assert list(json.load(answer)) == ["digit"]
        finally:
            server.terminate()


@pytest.mark.thorough
def test_the_page_about_plugins_runs_with_its_example_installed(tmp_path: Path):
    example = ROOT / "tests/example_plugin"
    shutil.copytree(example / "acme_prograd", tmp_path / "acme_prograd", ignore=shutil.ignore_patterns("__pycache__"))
    about = tmp_path / "acme_prograd-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-prograd\nVersion: 1.0\n")
    halves = ("operators", "kernels", "lowering")
    (about / "entry_points.txt").write_text(
        "".join(f"[prograd.{half}]\nacme = acme_prograd.{half}\n" for half in halves)
    )
    declared, kernels, lowering, *scripts = BLOCK.findall((ROOT / "docs/plugins.md").read_text(encoding="utf-8"))
    assert "@op(" in declared
    assert "@kernel(" in kernels
    assert "pointwise(" in lowering
    for script in scripts:
        assert_runs(tmp_path, [script])
    np.save(tmp_path / "x.npy", np.ones((8, 3), np.float32))
    refused, works = commands(ROOT / "docs/plugins.md")
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    for command, code in ((refused, 3), (works, 0)):
        arguments = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(arguments, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert code == 0 or done.stderr.strip() in page


def test_the_page_about_the_native_engine_writes_a_loop():
    pytest.importorskip("llvmlite")
    from native.building import HERE as TARGETS
    from native.building import call, target

    from runtime.codegen.ir import FLOAT32, INT64
    from runtime.codegen.ir.words import across

    [block] = BLOCK.findall((ROOT / "docs/native.md").read_text(encoding="utf-8"))
    kind = target(TARGETS[0])
    lanes = kind.lanes(8)
    columns = 4 * lanes

    def build(f, x, y):
        names = {"f": f, "x": x, "columns": columns, "lanes": lanes, "vector": FLOAT32.of(lanes)}
        names["row"] = f.constant(INT64, 1)
        exec(block, names)
        f.store(across(names["total"], lambda a, b: a + b), y)

    x = np.arange(2 * columns, dtype="f").reshape(2, columns)
    assert call(kind, build, [x, np.zeros(1, "f")])[1][0] == x[1].sum()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the files that pages assume: a program with a setting, its rows, and trained states."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROGRAD_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 60)
    image = rng.integers(0, 17, (60, 8, 8, 1)).astype("uint8")
    data.write(
        "digits.safetensors", {"image": image, "label": label}, splits={"train": range(40), "test": range(40, 60)}
    )
    program = Program("digits", seed=1)
    x, y = program.input("image", "uint8", ("batch", 8, 8, 1)), program.input("label", "int64", ("batch",))
    logits = layers.dense(ops.reshape(ops.cast(x, dtype="float32"), shape=("batch", 64)), "output", 2)
    program.minimize(ops.softmax_cross_entropy(logits, y), adam(program.setting("rate", 1e-3)))
    score = ops.softmax(logits)[:, 1]
    program.metrics(
        accuracy=ops.accuracy(logits, y),
        confusion=metrics.confusion_matrix(logits, y),
        roc=metrics.roc_curve(score, ops.equal(y, 1)),
    )
    program.outputs(digit=ops.argmax(logits, axis=1))
    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=False, remainder="drop")
    program.training(epochs=2, evaluate="test")
    program.compile(batch=20).save("digits.pb", force=True)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert runtime(words("execute digits.pb -q --save trained.safetensors")) == 0
    return tmp_path


def commands(page: Path) -> list[str]:
    """Return the commands that a page shows after `$`, with continued lines joined."""
    return [command.replace("\\\n", "") for command in COMMAND.findall(page.read_text(encoding="utf-8"))]


def words(text: str) -> list[str]:
    return text.split()


def environment(*first: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, first), *sys.path])}


def assert_runs(folder: Path, scripts: list[str]):
    """One after the other, each by itself, in one process."""
    code = "\n".join(f"exec({script!r}, {{'__name__': '__main__'}})" for script in scripts)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
