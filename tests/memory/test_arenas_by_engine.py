"""`compiler summary`: the arenas that it states are those that runs take, by engine."""

from pathlib import Path
from typing import Any

import pytest
from subjects.commands import fields, run_compiler, run_runtime
from subjects.small_programs import rich, save

from compiler.build.opened import read_program
from runtime import load
from runtime.engines import choice
from runtime.engines.engine import Unavailable

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.pb"))


def stated(capsys: Any, path: Path, *options: object) -> dict[str, dict[str, int]]:
    """Return the arena of each entry, by engine and entry."""
    code, text, err = run_compiler(capsys, "summary", path, *options)
    assert (code, err) == (0, "")
    out = text.splitlines()
    lines = out[next(i for i, line in enumerate(out) if line.startswith("entry ")) :]
    head = lines[0]
    found: dict[str, dict[str, int]] = {}
    for engine in ("native", "reference"):
        name = f"{engine} arena"
        if name in head:
            end = head.index(name) + len(name)
            cells = {line.split()[0]: line[:end].split()[-1].replace(",", "") for line in lines[1:]}
            found[engine] = {entry: int(cell) for entry, cell in cells.items()}
    return found


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_takes_the_arena_of_the_largest_entry_that_runs(tmp_path: Path, capsys: Any, engine: str, threads: int):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
    path = save(rich(), tmp_path)
    code, out, err = run_runtime(capsys, "execute", path, "-q", "--engine", engine, "--threads", threads)
    assert (code, err) == (0, "")
    arenas = stated(capsys, path, "--threads", threads)[engine]
    assert int(fields(out[-1])["arena"]) == max(arenas["train"], arenas["evaluate"])


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_entries_of_the_examples_take_what_is_stated(capsys: Any, path: Path, engine: str):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
    arenas = stated(capsys, path, "--threads", 2)[engine]
    for entry in read_program(path).entries:
        run = load(path, engine=engine, threads=2)  # pyright: ignore[reportArgumentType]
        taken = [run.session.engine.needs(bound).arena for bound in run.session.bindings(entry.name)]
        largest = run.session.bindings(entry.name)[taken.index(max(taken))]
        run.session.workspaces.executor(largest)
        assert run.session.workspaces.arena_bytes == arenas[entry.name]
        run.close()


def test_an_engine_that_cannot_run_here_is_left_out(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch):
    def missing(*_: object) -> None:
        raise Unavailable("there is no llvmlite", "no_llvmlite")

    monkeypatch.setitem(choice.ENGINES, "native", missing)
    assert list(stated(capsys, save(rich(), tmp_path))) == ["reference"]
