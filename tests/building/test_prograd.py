"""`import prograd`: the public names of builder and library in one package, looked up when they are used."""

import ast
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import compiler
import prograd
import runtime


def exported(module: ModuleType) -> set[str]:
    """The names that a package imports to give them on: `adam as adam`, and what a star stands for."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    stars = [str(node.module) for node in imports if node.names[0].name == "*"]
    given = {alias.name for node in imports for alias in node.names if alias.asname == alias.name}
    return given.union(*(import_module(star).__all__ for star in stars))


def python(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """A script of a user's, in a folder of his."""
    (folder / "script.py").write_text(script)
    command = [sys.executable, "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_public_names_of_builder_and_library_are_there_and_are_the_same():
    public = exported(compiler)
    for name in public:
        assert getattr(prograd, name) is getattr(compiler, name)
    for name in dir(runtime):
        if name != "use_plugin":  # the builder's, which uses both halves of a plugin
            assert getattr(prograd, name) is getattr(runtime, name)
    assert set(dir(prograd)) == public | set(dir(runtime)) | {"callbacks", "data", "layers"}


def test_type_checkers_know_the_names_that_are_looked_up():
    assert exported(compiler) == set(dir(compiler))
    assert exported(prograd) == set(dir(prograd))


def test_importing_it_imports_nothing_and_loading_needs_no_compiler(tmp_path: Path):
    seen = "[m for m in ('compiler', 'registry', 'runtime', 'numpy', 'google.protobuf') if m in sys.modules]"
    done = python(tmp_path, f"import sys, prograd\nprint({seen})\nprograd.load, prograd.Run\nprint({seen})")
    assert done.stdout.splitlines() == ["[]", "['runtime', 'numpy', 'google.protobuf']"]


def test_a_name_that_is_not_there_is_said_with_one_that_is():
    with pytest.raises(AttributeError, match=r"^there is no 'Progam' in prograd; did you mean 'Program'\?$"):
        _ = prograd.Progam  # pyright: ignore


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["compiler", "registry", "runtime", "prograd_proto"])
def test_a_file_that_hides_a_package_is_named(name: str, tmp_path: Path):
    (tmp_path / f"{name}.py").write_text("")
    done = python(tmp_path, "from prograd import Program")
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {tmp_path / name}.py hides the package {name!r}, which prograd is made of; "
        "rename it, or run Python from another folder"
    )
    for code in ("import prograd.layers", "import prograd.data", "import prograd.sklearn"):
        assert python(tmp_path, code).stderr.splitlines()[-1] == done.stderr.splitlines()[-1]
    if name in ("runtime", "prograd_proto"):
        assert python(tmp_path, "import prograd.callbacks").stderr.splitlines()[-1] == done.stderr.splitlines()[-1]
    for code in ("from compiler import Program", "import runtime; runtime.load"):
        needs = ("prograd_proto",) if "load" in code else ("registry", "runtime", "prograd_proto")
        if name in needs:
            assert python(tmp_path, code).stderr.splitlines()[-1] == done.stderr.splitlines()[-1]
    for command in ("prograd", "compiler", "runtime"):
        run = subprocess.run([sys.executable, "-m", command, "ops"], cwd=tmp_path, capture_output=True, text=True)
        if command == "runtime" and name != "prograd_proto":  # the runtime needs no other package
            continue
        if command != name:  # else it is the file of the user that runs
            assert (run.returncode, run.stdout) == (2, "")
            assert run.stderr == done.stderr.splitlines()[-1].replace("ImportError", command) + "\n"


def test_a_package_of_the_user_that_hides_one_is_named(tmp_path: Path):
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "__init__.py").write_text("")
    run = subprocess.run([sys.executable, "-m", "compiler", "ops"], cwd=tmp_path, capture_output=True, text=True)
    said = (
        f"{tmp_path / 'registry' / '__init__.py'} hides the package 'registry', which prograd is made of; "
        "rename it, or run Python from another folder"
    )
    assert (run.returncode, run.stdout, run.stderr) == (2, "", f"compiler: {said}\n")
    assert python(tmp_path, "from prograd import Program").stderr.splitlines()[-1] == f"ImportError: {said}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "code",
    ["from prograd import Program, load", "import runtime; from prograd import Program", "import prograd.layers"],
)
def test_prograd_is_imported_in_a_clone_where_another_one_is_installed(code: str, tmp_path: Path):
    """Import as after `pip install .`: the first folder on the path has all packages but `prograd_proto`."""
    root, ignore = Path(prograd.__file__).parents[1], shutil.ignore_patterns("__pycache__")
    for name in ("prograd", "compiler", "registry", "runtime"):
        shutil.copytree(root / name, tmp_path / "clone" / name, ignore=ignore)
        shutil.copytree(root / name, tmp_path / "site" / name, ignore=ignore)
    shutil.copytree(root / "proto", tmp_path / "clone" / "proto", ignore=ignore)
    shutil.copytree(root / "proto" / "prograd_proto", tmp_path / "site" / "prograd_proto", ignore=ignore)
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import prograd, sys; print(prograd.__file__); print(prograd.Program())"],
        cwd=tmp_path / "clone",
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith(f"{tmp_path / 'clone' / 'prograd' / '__init__.py'}\n<Program 'program'")


def test_a_file_that_hides_the_compiler_does_not_matter_to_who_only_runs(tmp_path: Path):
    (tmp_path / "compiler.py").write_text("")
    done = python(tmp_path, "import prograd; print(prograd.load.__module__)")
    assert (done.stdout, done.stderr) == ("runtime.runs.run\n", "")


def test_the_line_of_an_op_that_a_layer_appends_is_the_users():
    program = prograd.Program()
    x = program.input("x", "float32", ("batch", 4))
    prograd.layers.dense(x, "hidden", 3)
    lines = {program.locations.text(op.location).partition(":")[0] for op in program.block.desc.ops}
    assert {Path(line).name for line in lines} == {"test_prograd.py"}


def test_a_star_brings_what_is_public():
    names: dict[str, object] = {}
    exec("from prograd import *", names)
    assert {*dir(prograd)} == names.keys() - {"__builtins__"}
    assert names["Program"] is prograd.Program
