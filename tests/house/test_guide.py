"""The guide is true: its pages, in their order, run in one folder, and lead to the next; and so are the notebooks."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guide"
PAGES = (
    *("first-program", "data", "training", "looking", "serving", "loops", "pytorch", "images", "tables-texts-series"),
    *("pytorch-trunk", "own-loop", "intervals"),
)
PAGES_WITH_PYTORCH = ("pytorch-trunk",)
CHAIN = PAGES[:5]
"""Pages that read files which those before them write."""
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$|^ {4}\$ (?P<command>(?:\\\n|[^\n])*)$", re.MULTILINE | re.DOTALL)


def test_the_guide_has_these_pages_and_numbers_them():
    assert {path.stem for path in GUIDE.glob("*.md")} == set(PAGES)
    titles = [page(name).partition("\n")[0] for name in PAGES]
    assert [title.split()[:2] for title in titles] == [["#", f"{number}."] for number in range(1, len(PAGES) + 1)]


def test_every_block_of_code_and_every_command_of_the_first_pages_runs(tmp_path: Path):
    for name in CHAIN:
        assert_runs(tmp_path, name, script_of(name))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in PAGES if name not in CHAIN + PAGES_WITH_PYTORCH])
def test_every_block_of_code_and_every_command_of_a_page_runs(name: str, tmp_path: Path):
    assert_runs(tmp_path, name, script_of(name))


@pytest.mark.parametrize("name", PAGES_WITH_PYTORCH)
def test_a_page_about_modules_of_pytorch_runs(name: str, tmp_path: Path):
    pytest.importorskip("torch")
    assert_runs(tmp_path, name, script_of(name))


def script_of(name: str) -> str:
    return "\n".join(as_python(block) for block in BLOCK.finditer(page(name)))


@pytest.mark.parametrize("name", ["images", "tables-texts-series", "pytorch-trunk", "intervals"])
def test_programs_of_a_task_have_at_most_25_lines(name: str):
    blocks = re.findall(r"^```python\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)
    assert blocks
    assert max(len([line for line in block.splitlines() if line.strip()]) for block in blocks) <= 25


NOTEBOOKS = {
    "digits": """
equal = [np.array_equal(run.state["output.w"], other.state["output.w"]) for other in (again, slower)]
assert equal == [True, False]
assert result["accuracy"] > 0.9
""",
    "penguins": """
assert result["accuracy"] > 0.9
assert result["confusion"].sum() == 100
assert abs(served - probabilities).max() < 1e-5
found = prograd.data.decode(probabilities.argmax(axis=1), "species", "penguins.safetensors")
assert found.tolist() == ["Adelie", "Gentoo"]
assert len(axes.lines) == 2
assert "<td>penguins" not in run._repr_html_() and "body.hidden.w" in run._repr_html_() + program._repr_html_()
""",
    "finetune": """
assert np.abs(head_only.predict(inputs)["features"] - features).max() < 1e-5
assert moved(head_only) == 0 < moved(both)
assert curves["the head alone"][0] < curves["the head alone"][-1] <= curves["then all of it"][-1]
assert curves["then all of it"][-1] > 0.85
there = np.maximum(trunk_of_torch(inputs), 0)  # of the first weights
x = np.maximum(inputs @ back["hidden1.weight"].T + back["hidden1.bias"], 0) @ back["hidden2.weight"].T
x = np.maximum(x + back["hidden2.bias"], 0) @ back["head.weight"].T + back["head.bias"]
assert np.abs(x - both.predict(inputs)["scores"]).max() < 1e-4
""",
}
"""Checks that run after the cells of each page."""

NEED_PYTORCH = {"from_pytorch"}  # tests/frontends/test_example.py runs them


def test_every_notebook_is_run_and_named_on_the_pages():
    found = {path.stem for path in (ROOT / "examples/notebooks").glob("*.ipynb")}
    assert found == set(NOTEBOOKS) | NEED_PYTORCH
    for page_ in ("examples/README.md", "docs/guide/looking.md"):
        told = set(re.findall(r"(\w+)\.ipynb", (ROOT / page_).read_text(encoding="utf-8")))
        assert told == found, page_


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_cells_of_a_notebook_run_in_their_order(name: str, tmp_path: Path):
    notebook = json.loads((ROOT / f"examples/notebooks/{name}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / "examples/digits.safetensors", tmp_path)
    script = "\n".join([*("".join(cell["source"]) for cell in cells), NOTEBOOKS[name]])
    assert assert_runs(tmp_path / "notebooks", name, script) == "", "a notebook shows what is on stderr in red"


def test_the_site_has_every_page_once():
    listed = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    made = {
        "changelog.md",
        "contributing.md",
        "security.md",
        "benchmarks.md",
        "decisions/index.md",
    }  # by docs/site_pages.py
    docs = [path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")]
    assert sorted(listed) == sorted({name for name in docs if not name.startswith("decisions/")} | made)
    assert [name for name in listed if name.startswith("guide/")] == [f"guide/{name}.md" for name in PAGES]


def page(name: str) -> str:
    return (GUIDE / f"{name}.md").read_text(encoding="utf-8")


def as_python(block: re.Match[str]) -> str:
    """The block, or a call of what the command calls, whose exit code has to be 0."""
    if block["code"]:
        return block["code"]
    room, *arguments = shlex.split(block["command"].replace("\\\n", ""))
    assert room in ("compiler", "runtime")
    return f"import {room}.__main__\nassert {room}.__main__.main({arguments}) == 0"


def assert_runs(folder: Path, name: str, script: str) -> str:
    """Run a script, and return what it writes on stderr."""
    path = os.pathsep.join(sys.path)
    environment = os.environ | {"PYTHONPATH": path, "PROGRAD_ENGINE": "reference", "OPENBLAS_NUM_THREADS": "1"}
    (folder / f"{name}.script.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-W", "error", f"{name}.script.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    return done.stderr
