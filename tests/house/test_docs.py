"""Tests of the pages: commands, programs, links, paths, the reference, the page on adding an operator."""

import ast
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from subjects.sources import tree_of

from compiler import clipping, initialisers, optimizers, schedules, trust_ratios
from compiler.commands.passes import tables_by_name
from compiler.commands.verbs.command import COMMAND as COMPILER
from compiler.reference import reference
from compiler.reference.passes import passes_page
from prograd.commands.options_page import options_page
from runtime.commands.verbs.command import COMMAND as RUNTIME

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROOMS = ("proto", "registry", "compiler", "runtime", "prograd")

DOCUMENTED_BY_OPERATOR = (
    "proto/prograd_proto/result_types",
    "registry/ops",
    "runtime/engines/reference/kernels",
    "runtime/codegen/rules",
)
"""Packages whose functions need no docstring: the page on operators describes them."""

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "proto/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_ci_runs_the_two_commands_of_the_readme_in_a_folder_of_that_name_and_then_make_check():
    commands = fenced(README, "sh")
    assert len(commands) == 2
    script = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    run = [line for line in script if line and not line.startswith("#")]
    *run, left_out = run
    begin = ["set -euo pipefail", 'cd "$(dirname "$0")/.."']
    folder = [
        "folder=$(mktemp -d)",
        "trap 'rm -rf \"$folder\"' EXIT",
        'git clone --quiet . "$folder/é 1/prograd"',
        'cd "$folder/é 1/prograd"',
        "unset PYTHONDONTWRITEBYTECODE",
        "export PIP_NO_COMPILE=0",
        "export PYTEST_ADDOPTS=\"-m 'not (thorough or long) or drawn' --draw $(git rev-parse HEAD)\"",
    ]
    end = [
        "left=$(git status --porcelain)",
        'if [ -n "$left" ]; then',
        "    printf 'These files were left in the tree:\\n%s\\n' \"$left\"",
        "    exit 1",
        "fi",
    ]
    assert run == [*begin, *folder, *(c.rstrip("\n") for c in commands), "make check", *end]
    assert re.fullmatch(r'echo ".* thorough.*make test thorough.*"', left_out)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no executable bit")
def test_the_ci_script_is_executable():
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.rule
def test_the_program_and_the_commands_of_the_readme_work_in_an_empty_folder(tmp_path: Path):
    program, library, *_ = fenced(README, "python")
    assert len(program.splitlines()) <= 25
    for _ in range(2):  # a script is run again
        assert python(tmp_path, "-c", program) == ""
    shown = README.split("complete:")[1].split("The same from Python")[0].replace("\\\n", "")
    commands = re.findall(r"^    \$ (.*)$", shown, re.MULTILINE)
    results = [python(tmp_path, "-m", *shlex.split(command, comments=True)).splitlines()[-1] for command in commands]
    assert [result.partition(" ")[0] for result in results[:5]] == ["OK"] * 5
    assert field(results[3], "state_sha256") == field(results[4], "state_sha256")
    assert np.load(tmp_path / "p.npy").shape == (599, 10)
    accuracy = float(python(tmp_path, "-c", library).split()[0])
    assert accuracy == pytest.approx(float(field(results[1], "accuracy")), rel=1e-5)
    assert accuracy > 0.9


@pytest.mark.rule
def test_links_lead_somewhere():
    assert [f"{page}: {fault}" for page in PAGES for fault in wrong_links(page)] == []


def wrong_links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        if path.startswith("http"):
            yield f"{target}: pages stand on their own"
        elif not linked.exists():
            yield f"{target} does not exist"
        elif anchor and anchor not in anchors(linked):
            yield f"{target}: there is no such heading"


def test_paths_that_a_page_names_exist():
    folders = "|".join((*ROOMS, "tests", "docs", "examples", "benchmarks", r"\.ci"))
    texts = {page: FENCE.sub("", page.read_text(encoding="utf-8")) for page in PAGES}
    named = [(page, path) for page in PAGES for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", texts[page])]
    assert len(named) > 100
    assert [(page, path) for page, path in named if not (ROOT / path).exists()] == []


def test_no_line_of_a_page_is_longer_than_100_characters_unless_it_cannot_be_broken():
    """Tables, code, headings, pictures and links have their length; generated pages are as their tables are."""
    found = [
        (page, number)
        for page in PAGES
        if page.name not in GENERATED
        for number, line in prose(page.read_text(encoding="utf-8"))
        if len(line) > 100 and " " in re.sub(r"\[[^]]*\]\([^)]*\)|`[^`]*`", "", line.strip()[:100])
    ]
    assert found == []


GENERATED = {
    "compared.md",
    "from-onnx-operators.md",
    "from-pytorch-networks.md",
    "from-pytorch-operators.md",
    "ops.md",
    "options.md",
    "passes.md",
    "to-onnx-operators.md",
}


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of paragraphs and lists, with their numbers."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and not line.startswith("    ") and not line.lstrip().startswith(("|", "#", "![", "```")):
            yield number, line


@pytest.mark.rule
def test_the_operator_reference_is_what_the_registry_says():
    current = (ROOT / "docs/ops.md").read_text(encoding="utf-8") == reference()
    assert current, "docs/ops.md is of other operators: run `make docs`"


def test_the_page_on_passes_is_what_their_tables_say():
    current = (ROOT / "docs/passes.md").read_text(encoding="utf-8") == passes_page(tables_by_name().values())
    assert current, "docs/passes.md is of other passes: run `make docs`"


def test_the_page_on_options_is_what_the_tables_of_the_verbs_say():
    current = (ROOT / "docs/options.md").read_text(encoding="utf-8") == options_page()
    assert current, "docs/options.md is of other options: run `make docs`"


def test_the_page_on_commands_names_every_verb():
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    told = {word for line in re.findall(r"^#+ .*$", page, re.MULTILINE) for word in re.findall(r"\w+", line)}
    told |= set(re.findall(r"^\* `(\w+) ", page, re.MULTILINE)) | set(re.findall(r"and `(\w+)`", page))
    assert {word for verb in (*COMPILER.verbs, *RUNTIME.verbs) for word in verb.split()} <= told


def test_the_page_on_rows_runs(tmp_path: Path):
    page = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    python(tmp_path, "-c", "\n".join([*fenced(page, "python"), "assert species.tolist() == ['dog', 'cat']"]))


@pytest.mark.thorough
def test_the_page_on_training_runs_and_names_all_that_there_is(tmp_path: Path):
    page = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    for code in fenced(page, "python"):
        python(tmp_path, "-c", code)
    told = set(re.findall(r"`(?:\w+\.)*(\w+)", page))
    inner = {"keeping", "rate_for", "as_schedule", "fans", "require_clip"}
    for module in (optimizers, trust_ratios, schedules, initialisers, clipping):
        here = {name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__}
        functions = {name for name in here if name.islower() and not name.startswith("_")}
        assert functions - inner <= told


def test_decisions_are_numbered_without_gaps():
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs/decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_operator_is_added_by_pasting_the_page_about_it(tmp_path: Path):
    for folder in (*ROOMS, "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder)  # with compiled modules
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    page = (ROOT / "docs/adding-an-op.md").read_text(encoding="utf-8")
    *pasted, program = fenced(page, "python")
    for block in pasted:
        paste(tmp_path, block)
    tests = "-v -p no:cacheprovider -m '' -k weighted_mean tests/every_operator/test_ops.py tests/native/test_groups.py"
    passed = re.findall(
        r"^tests/(\S+?)::.* PASSED", python(tmp_path, "-m", "pytest", *shlex.split(tests)), re.MULTILINE
    )
    ways = 5 + 2 * 5 + 1  # the operator and two samples in five ways, the large sample
    assert passed.count("every_operator/test_ops.py") >= ways
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    assert passed.count("native/test_groups.py") == 2, "both samples by the lowering rule"
    assert "weighted_mean(%x, " in python(tmp_path, "-c", program)
    message = re.search(r"weighted_mean\(x: float32.*$", page, re.MULTILINE)
    operands = "program.input('a', 'float32', ('batch', 10)), program.input('b', 'float64', (10,))"
    wrong = f"{program}\nops.weighted_mean({operands})"
    assert message
    assert message[0] in python(tmp_path, "-c", wrong, fails=True)


def test_the_tables_of_tests_that_a_lowering_rule_extends_are_there():
    page = (ROOT / "docs/adding-an-op.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(tests/native/\S+)` \| .*? \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) == 3
    for file, told in rows:
        tables = re.findall(r"`([A-Z]+)`", told)
        source = (re.findall(r"`(tests/\S+)`", told) or [file])[0]
        lines = (ROOT / source).read_text(encoding="utf-8").splitlines()
        assert {name for name in tables if any(re.match(rf"{name}\b.* = ", line) for line in lines)} == {*tables}
        assert (ROOT / file).exists()


def test_what_is_public_has_a_docstring():
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
        for name in undocumented(path)
    ]
    assert missing == []


def fenced(text: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return [code for word, code in FENCE.findall(text) if word == language]


def paste(root: Path, block: str):
    """Do what the first line of a block says."""
    first, _, code = block.partition("\n")
    at_end = re.fullmatch(r"# at the end of (\S+)", first)
    in_list = re.fullmatch(r"# in the list (\w+) of (\S+)", first)
    assert at_end or in_list, first
    if at_end:
        path = root / at_end[1]
        path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{code}", encoding="utf-8")
    else:
        path = root / in_list[2]
        text = path.read_text(encoding="utf-8")
        assert text.count(f"\n{in_list[1]} = [\n") == 1
        path.write_text(text.replace(f"\n{in_list[1]} = [\n", f"\n{in_list[1]} = [\n{code}"), encoding="utf-8")


def test_a_page_names_no_form_of_a_command_that_imports_from_the_working_folder():
    form = re.compile(r"python[0-9.]* (?:-[a-zA-Z]+ )*-m (?:runtime|compiler)")
    assert [page for page in PAGES if form.search(page.read_text(encoding="utf-8").replace("-P ", "\0"))] == []


@pytest.mark.parametrize("command", ["runtime", "compiler"])
def test_the_form_that_is_documented_runs_no_module_of_the_working_folder(command: str, tmp_path: Path):
    (tmp_path / f"{command}.py").write_text("print('not prograd')")
    done = subprocess.run([sys.executable, "-P", "-m", command, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith(f"usage: {command} ")
    assert done.returncode == 0


def test_every_dependency_has_an_upper_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [needed for needed in project["dependencies"] if not re.search(r"<\d+$", needed)] == []


def python(folder: Path, *arguments: str, fails: bool = False) -> str:
    """Return the output of a new interpreter in that folder, whose modules come first on the path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(folder / "proto"), *sys.path))}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def field(line: str, name: str) -> str:
    """The value of `name=` in a result line."""
    return dict(part.split("=", 1) for part in line.split()[1:])[name]


def anchors(page: Path) -> set[str]:
    """The headings of a page as links write them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def undocumented(path: Path) -> list[str]:
    """The module, classes, functions and methods of a file that have no docstring and should have one."""
    tree = tree_of(path)
    missing = [] if ast.get_docstring(tree) else ["the file"]
    rules = any(path.is_relative_to(ROOT / folder) for folder in DOCUMENTED_BY_OPERATOR)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not rules:
            missing += nameless(node)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            missing += nameless(node)
            missing += [name for part in node.body if isinstance(part, ast.FunctionDef) for name in nameless(part)]
    return missing


def nameless(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    overload = any("overload" in ast.unparse(decorator) for decorator in node.decorator_list)
    private = node.name.startswith("_")
    return [] if private or overload or ast.get_docstring(node) else [node.name]


def test_links_to_files_outside_of_the_pages_lead_to_pages_of_the_site_or_are_text():
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs/site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    site_pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site_pages)
    led = site_pages.with_links_of_the_site
    assert led("[S](../../SECURITY.md#a) and [D](0001-a.md)", "docs/decisions/0050.md") == (
        "[S](../security.md#a) and [D](0001-a.md)"
    )
    assert led(
        "[code](../runtime/a.py), [b](../benchmarks/README.md), [w](words.md), [all](decisions/)", "docs/a.md"
    ) == ("code, [b](benchmarks.md), [w](words.md), [all](decisions/index.md)")
    assert led("![picture](../pictures/a.svg) [e](../../examples/README.md)", "docs/guide/loops.md") == (
        "![picture](../pictures/a.svg) e"
    )
    assert led("[d](docs/words.md#a) [p](proto/README.md) [c](CHANGELOG.md)", "CONTRIBUTING.md") == (
        "[d](words.md#a) p [c](changelog.md)"
    )
    assert led("[d](../docs/words.md) [c](costs.py)", "benchmarks/README.md") == "[d](words.md) c"
    pages = [f"docs/{page.relative_to(ROOT / 'docs').as_posix()}" for page in (ROOT / "docs").rglob("*.md")]
    names = {page.removeprefix("docs/") for page in pages} | {*site_pages.BESIDE.values(), "decisions/index.md"}
    for page in (*pages, *site_pages.BESIDE):
        text = FENCE.sub("", led((ROOT / page).read_text(encoding="utf-8"), page))
        folder = os.path.dirname(site_pages.BESIDE.get(page, page.removeprefix("docs/")))
        for target in re.findall(r"(?<!!)\[[^][]*\]\((?!\w+:)([^)#\s]+)[^)]*\)", text):
            assert os.path.normpath(os.path.join(folder, target)) in names, f"{page}: {target} is no page of the site"
