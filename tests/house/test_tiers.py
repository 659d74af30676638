"""The tiers of the tests: the list of slow ones is of tests that exist, and what a change touches."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import mutate_code
import numpy as np
import pytest
from tiers import (
    DRAWN,
    LEFT_OUT,
    LONG_DRAWN,
    SLOW_TESTS,
    is_drawn,
    is_sampled,
    lines_of,
    listed_tests,
    pytest_terminal_summary,
    slow_functions,
    touched_tests,
    unlisted_sentence,
)

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
RNG = np.random.default_rng(1)


def test_every_line_of_the_list_of_slow_tests_names_a_function():
    functions = {
        f"{path.name}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    lines = SLOW_TESTS.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    assert len(listed_tests()) == len(lines), "a function has one line"
    unknown = listed_tests().keys() - functions
    assert not unknown, "rename these lines of tests/slow_tests.txt like their tests, or run `make slow-tests`"


def test_every_change_by_a_patch_is_undone():
    """A patch that is not a context changes the modules of all later tests of the process."""
    left = [path for path in TESTS.rglob("*.py") if re.search(r"\bMonkeyPatch\(", path.read_text(encoding="utf-8"))]
    assert not left, "use the fixture `monkeypatch`, or `with pytest.MonkeyPatch.context()`"


def test_the_commands_of_the_tiers_select_by_the_marks_that_are_registered():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert [line.partition(":")[0] for line in options["markers"]] == [
        "slow",
        "long",
        "rule",
        "sampled(n)",
        "thorough",
        "drawn",
    ]
    assert "--strict-markers" in options["addopts"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commit, drawn, quick = LEFT_OUT
    assert options["addopts"].endswith(f"-m '{commit}'")
    assert f'-m "{quick}" --changed-since' in makefile
    assert f"-m '{drawn}' --draw" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_command_for_other_frameworks_runs_every_file_that_needs_one():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [listed] = re.findall(r"^FRAMEWORK_TESTS := \$\(addprefix tests/,(.+)\)$", makefile, re.MULTILINE)
    folders = [TESTS / name for name in listed.split()]
    needs = re.compile(
        r"^\s*(?:import|from) (?:torch|onnxruntime)|importorskip\(.(?:gguf|keras|onnxruntime|peft|tensorflow|torch)",
        re.M,
    )
    found = [path for path in TESTS.rglob("test_*.py") if needs.search(path.read_text(encoding="utf-8"))]
    assert len(found) > 40
    assert [path for path in found if not any(folder in (path, *path.parents) for folder in folders)] == []


@pytest.mark.parametrize("turn", [0, 1])
def test_each_test_of_a_file_draws_the_same_numbers(turn: int):
    assert RNG.integers(2**62) == np.random.default_rng(1).integers(2**62), f"also in turn {turn}"


@pytest.mark.parametrize("of", [2, 3, 4, 5])
def test_a_sample_of_cases_has_each_value_of_two_parameters(of: int):
    sample = [divmod(number, of) for number in range(of * of) if is_sampled(number, of)]
    assert len(sample) == of
    assert {first for first, _ in sample} == {second for _, second in sample} == {*range(of)}


@pytest.mark.parametrize("of", [DRAWN, LONG_DRAWN])
def test_each_test_is_drawn_by_one_commit_of_a_number(of: int):
    commits = [f"{number:040x}" for number in range(2**150, 2**150 + 3 * of)]
    assert [sum(is_drawn(f"t.py::a[{case}]", commit, of) for commit in commits) for case in range(50)] == [3] * 50


def test_a_drawn_test_that_fails_is_printed_with_the_command_that_repeats_it(capsys: pytest.CaptureFixture[str]):
    reports = [SimpleNamespace(nodeid="t.py::a[x y]", keywords=each) for each in ({"drawn": 1}, {})]
    uncollected = [SimpleNamespace(nodeid="u.py")]
    reporter = SimpleNamespace(stats={"failed": reports, "error": uncollected}, write_line=print)
    pytest_terminal_summary(reporter)  # pyright: ignore[reportArgumentType] - all that it reads
    assert capsys.readouterr().out == "repeat with: CI=1 .venv/bin/pytest -m \"\" 't.py::a[x y]'\n"


def test_a_file_of_tests_is_skipped_only_for_an_optional_package_that_is_missing(tmp_path: Path):
    for name in ("onnx", "numpy"):
        (tmp_path / f"test_{name}.py").write_text(f"import sys\nsys.modules['{name}'] = None\nimport {name}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "optional_packages", "-c", os.devnull, "-rsE", tmp_path]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    summary = done.stdout.splitlines()[-4:]
    assert summary[0].endswith("test_onnx.py:0: needs onnx")
    assert summary[1].endswith("test_numpy.py")


def test_the_slow_functions_are_those_whose_tests_are_slow_on_average_or_together():
    seconds = {"a/t.py::a[1::2]": 0.03, "a/t.py::a[x/y]": 0.02, "t.py::b[1]": 0.03, "t.py::b[2]": 0.0, "t.py::c": 0.02}
    assert slow_functions(seconds).keys() == {"t.py::a", "t.py::c"}
    assert slow_functions({f"t.py::many[{number}]": 0.001 for number in range(900)}).keys() == {"t.py::many"}


def test_the_list_says_which_tests_are_long_on_average():
    seconds = {"t.py::b[1]": 0.4, "t.py::b[2]": 0.1, "t.py::a[1]": 0.4, "t.py::a[2]": 0.3, "t.py::c": 0.001}
    assert lines_of(seconds) == ["t.py::a long", "t.py::b"]


def test_the_quick_tier_names_functions_that_take_five_times_as_long_as_quick_ones_may():
    seconds = {"t.py::a": 0.11, "t.py::b": 0.03, "t.py::c": 0.001}
    assert slow_functions(seconds, times=5).keys() == {"t.py::a"}
    assert unlisted_sentence(["t.py::a"]) == (
        "slow, but not in tests/slow_tests.txt, which `make slow-tests` writes: t.py::a"
    )
    assert unlisted_sentence([f"t.py::{letter}" for letter in "abcdefg"]).endswith("t.py::d, t.py::e and 2 more")


@pytest.mark.thorough
def test_a_change_touches_the_tests_that_import_it_and_those_of_its_name():
    module = ROOT / "compiler/passes/pass_table.py"
    assert TESTS / "passes/test_pass_table.py" in touched_tests([module])
    assert touched_tests([Path(__file__)]) == {Path(__file__)}
    assert Path(__file__) in touched_tests([TESTS / "tiers.py"])
    assert touched_tests([ROOT / "README.md", ROOT / "compiler/no_longer_there.py"]) == set()


@pytest.mark.parametrize("path", ["registry/ops/conv.py", "proto/prograd_proto/pass_order.py"])
def test_a_module_that_no_test_imports_touches_the_nearest_tests(path: str):
    tests = touched_tests([ROOT / path])
    assert tests
    assert all(test.name.startswith("test_") for test in tests)


@pytest.mark.parametrize(
    ("code", "mutations"),
    [
        ("x = a + 1", {"x = a - 1", "x = a + 0", "x = a + 2"}),
        ("x = a not in b", {"x = a in b"}),
        ("if a and b:\n    f()", {"if (not (a and b)):\n    f()", "if a or b:\n    f()", "if a and b:\n    pass"}),
        ("a[0] = True", {"pass", "a[1] = True", "a[0] = False"}),
        ("def f(x: A | B) -> C | D:\n    raise E(x + 1)", {"def f(x: A | B) -> C | D:\n    pass"}),
        ("'Words, 1.'\nx = f'{y + 1}'", set()),
        ("x = 'é' < a", {"x = 'é' <= a"}),
    ],
)
def test_the_mutations_of_code_are_all_those_that_its_kinds_allow(code: str, mutations: set[str]):
    finder = mutate_code.Finder(Path("code.py"), code.encode())
    made = {mutation.apply(code.encode()).decode() for mutation in finder.found(ast.parse(code))}
    assert made == mutations


def test_equal_seeds_draw_equal_mutations(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mutate_code, "FOLDERS", ("registry/ops",))
    drawn = [str(mutate_code.drawn(3, number)) for number in range(20)]
    assert drawn == [str(mutate_code.drawn(3, number)) for number in range(20)]
    assert drawn != [str(mutate_code.drawn(4, number)) for number in range(20)]
