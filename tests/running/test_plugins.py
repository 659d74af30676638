"""Operators of other packages: an example is built, unpacked where a package would be, and used by its name."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from pathlib import Path

import numpy as np
import pytest
from oracles.interpret import compute
from samples.operands import sample, typed
from subjects.cases import build, check_derivative, differentiated
from subjects.commands import told
from subjects.small_programs import linear, save

import compiler
import runtime
from compiler import Program, ops, sgd
from compiler.__main__ import main as compiler_main
from compiler.build import plugins as compiler_plugins
from compiler.reference.operand_types import dtype_rules
from prograd_proto import PluginError, ProgramError, TensorType, attributes_of, files, upgrades
from prograd_proto.text import from_text, to_text
from prograd_proto.upgrades import operator_upgrade
from registry import OPS
from registry.op import find_op
from runtime.__main__ import main as runtime_main
from runtime.codegen.rules import RULES, Pointwise
from runtime.kernel import KERNELS
from runtime.operators import CONTRACTS
from runtime.rows.row_wise import is_row_wise
from runtime.step.arithmetic import operations

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "example_plugin"

SAMPLES = [
    sample("acme.swish", (2, 3)),
    sample("acme.swish", (2, 3), beta=0.5),
    sample("acme.swish", ()),
    sample("acme.swish", typed("float32", (2, 3)), order=0),
]

UNUSED = "'acme.swish', of no plugin that is in use; give --plugin acme"
UNUSED_IN_PYTHON = "'acme.swish', of no plugin that is in use; call use_plugin('acme')"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example as it is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def forget() -> Iterator[Callable[[], None]]:
    """Unloads every plugin, as it happens after the test too."""
    tables = OPS, CONTRACTS, KERNELS, RULES, upgrades.OPERATOR_VERSIONS, upgrades.OPERATOR_UPGRADES
    before = [set(table) for table in tables]

    def unload() -> None:
        for table, names in zip(tables, before, strict=True):
            for name in set(table) - names:
                del table[name]
        for name in [name for name in sys.modules if name.partition("_")[0] in ("acme", "zeta", "other")]:
            del sys.modules[name]
        compiler_plugins.USED.clear()

    yield unload
    unload()


@pytest.fixture
def installed(site: Path, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The example is installed, and not loaded."""
    monkeypatch.syspath_prepend(site)


@pytest.fixture
def used(installed: None) -> None:
    """The example is in use."""
    compiler.use_plugin("acme")


def swished(name: str = "swish") -> Program:
    """y = sum(swish(x w)), as `linear` has data for."""
    from acme_prograd.operators import swish  # type: ignore[import-not-found]  # installed by a fixture

    program = Program(name, seed=5)
    x = program.input("x", "float32", ("batch", 3))
    y = program.input("y", "float32", ("batch",))
    w = program.parameter("w", (3, 4), compiler.normal())
    prediction = ops.sum(swish(ops.matmul(x, w), beta=0.5), axis=(1,))
    program.minimize(ops.squared_error(prediction, y), sgd(rate=0.02))
    program.outputs(prediction=prediction)
    return program


def shell(folder: Path, site: Path, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, output and errors of a command in a new process."""
    path = os.pathsep.join((str(site), str(ROOT), str(ROOT / "proto")))
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


def install(
    folder: Path, name: str = "zeta", operators: str = "", kernels: str = "", package: str = "zeta", lowering: str = ""
) -> None:
    """Make `folder` hold a package with those two modules as a plugin of that name."""
    info = folder / f"{package}-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n")
    lines = (
        f"[prograd.{group}]\n{name} = {package}_{group}\n"
        for group, code in (("operators", operators), ("kernels", kernels), ("lowering", lowering))
        if code
    )
    (info / "entry_points.txt").write_text("\n".join(lines))
    for group, code in (("operators", operators), ("kernels", kernels), ("lowering", lowering)):
        if code:
            (folder / f"{package}_{group}.py").write_text(f"from __future__ import annotations\n{code}")


OPERATOR = """
from prograd_proto import TensorType
from registry import Value, op

@op(namespace="zeta"{more})
def cube(x: Value) -> TensorType:
    "x * x * x"
    return x.type

@cube.gradient
def cube_gradient(x: Value, {asked}: Value) -> Value:
    return {rule}
"""

KERNEL = """
from prograd_proto import TensorType
from runtime.kernel import Array, kernel

def cube_rule({inputs}) -> TensorType:
    return x

@kernel(cube_rule, namespace="zeta"{more})
def cube(x: Array, *, out: Array) -> None:
    out[...] = x * x * x
"""


def operator(more: str = "", asked: str = "dy", rule: str = "dy * x * x * 3.0") -> str:
    return OPERATOR.format(more=more, asked=asked, rule=rule)


def kernel(more: str = "", inputs: str = "x: TensorType") -> str:
    return KERNEL.format(more=more, inputs=inputs)


@pytest.mark.parametrize("case", SAMPLES, ids=str)
def test_the_examples_operator_holds_what_every_operator_does(used, case):
    built = build(case)
    types = [None if value is None else value.type for value in built.operands]
    made = CONTRACTS["acme.swish"].rule.results(*types, **attributes_of(built.desc))
    assert list(made) == [value.type for value in built.outputs]
    [x] = built.inputs
    assert x is not None
    beta = case.attributes.get("beta", 1.0)
    np.testing.assert_allclose(compute(built.desc, built.inputs)[0], x / (1 + np.exp(-beta * x)), rtol=1e-6)
    if case.order:
        check_derivative(differentiated(built))
        check_derivative(differentiated(differentiated(built).as_case()))


def test_a_program_with_a_plugin_trains_with_it_and_is_refused_without(site, used, tmp_path):
    save(swished(), tmp_path)
    code, out, err = shell(tmp_path, site, "-m", "runtime", "execute", "p.pb", "-q")
    assert (code, out, err) == (3, "", f"runtime: p.pb: the program uses {UNUSED}\n")
    code, out, err = shell(tmp_path, site, "-m", "runtime", "execute", "p.pb", "-q", "--plugin", "acme")
    assert (code, err) == (0, "")
    done = re.fullmatch(r"OK entry=train steps=21 loss=(\S+) .*\n", out)
    assert done
    run = runtime.load(tmp_path / "p.pb", plugins=["acme"])
    assert float(done[1]) < run.evaluate("train")["loss"] / 2


def test_the_native_engine_fuses_an_operator_by_the_rule_of_its_plugin(site, used, tmp_path, capsys):
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    path = save(swished(), tmp_path)
    runs = [runtime.load(path, plugins=["acme"], engine=engine) for engine in ("native", "reference")]
    losses = [run.train(epochs=1, progress=False).metrics["loss"] for run in runs]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    np.testing.assert_allclose(*(run.state["w"] for run in runs), rtol=1e-4)
    show = ["show", str(path), "--entry", "predict", "--engine", "native.sse2", "--plugin", "acme"]
    assert compiler_main(show) == 0
    assert "  acme.swish + sum -> " in capsys.readouterr().out


def test_code_by_the_rules_of_plugins_is_not_kept(site, used, tmp_path, monkeypatch):
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    monkeypatch.setenv("PROGRAD_CACHE", str(tmp_path / "cache"))
    path = save(swished(), tmp_path)
    first = runtime.load(path, plugins=["acme"], engine="native").evaluate("train")["loss"]
    RULES["acme.swish"] = Pointwise(lambda x, beta: x + x, frozenset({"float32"}))  # as if the plugin had changed
    assert runtime.load(path, plugins=["acme"], engine="native").evaluate("train")["loss"] != first


BAD_RULES = {
    "another_operator": (
        "from runtime.codegen.rules.rule import of_one\nof_one('zeta.square', lambda x: x * x)\n",
        "the plugin 'zeta' declares a lowering rule of 'zeta.square', which has no kernel",
    ),
    "no_rule": (
        "from runtime.codegen.rules import RULES\nRULES['zeta.cube'] = 3\n",
        "the plugin 'zeta' of zeta 2.0: 3 is no lowering rule",
    ),
    "a_fault": (
        "from runtime.codegen.rules.rule import of_one\nof_one('zeta.cube', lambda x: x.cubed)\n",
        "the lowering rule of 'zeta.cube': its plugin failed, AttributeError: 'Value' object has no attribute 'cubed'",
    ),
}


@pytest.mark.parametrize(("rules", "sentence"), BAD_RULES.values(), ids=BAD_RULES)
def test_a_wrong_rule_of_a_plugin_is_one_sentence(forget, tmp_path, monkeypatch, rules, sentence):
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    site = tmp_path / "site"
    install(site, operators=operator(), kernels=kernel(), lowering=rules)
    monkeypatch.syspath_prepend(site)
    invalidate_caches()
    compiler.use_plugin("zeta")
    program = Program("cubes")
    program.outputs(y=OPS["zeta.cube"](program.input("x", "float32", (4,))))
    run = runtime.Run(program.compile(), engine="native")
    assert told(PluginError, lambda: run.step({"x": [1, 2, 3, 4]}, entry="predict")) == sentence


def test_the_runtime_half_of_a_plugin_needs_no_registry(site, used, tmp_path):
    save(swished(), tmp_path)
    script = (
        "import runtime, sys; run = runtime.load('p.pb', plugins=['acme']); list(run.events(epochs=1))\n"
        "print({'registry', 'compiler', 'acme_prograd.operators'} & set(sys.modules))"
    )
    assert shell(tmp_path, site, "-c", script) == (0, "set()\n", "")


def test_loading_and_checking_a_program_imports_no_plugin_that_is_installed(site, used, tmp_path):
    save(swished(), tmp_path)
    script = (
        "import sys, runtime\n"
        "from prograd_proto.files import load; from prograd_proto.text import from_text, to_text\n"
        "from compiler.build.compiled import compile_program; from runtime.check import check_program\n"
        "from runtime.engines.reference.target import REFERENCE\n"
        "program = load('p.pb'); assert from_text(to_text(program)) == program\n"
        "check = lambda: check_program(program, REFERENCE)\n"
        "uses = lambda: runtime.load('p.pb'), check, lambda: compile_program(program, {})\n"
        "for use in uses:\n"
        "    try: use()\n"
        "    except ValueError as error: print(error)\n"
        "print([name for name in sys.modules if 'acme' in name])"
    )
    code, out, err = shell(tmp_path, site, "-c", script)
    *sentences, imported = out.splitlines()
    assert (code, err, imported) == (0, "", "[]")
    assert sentences == [f"p.pb: the program uses {UNUSED_IN_PYTHON}", *[f"the program uses {UNUSED_IN_PYTHON}"] * 2]


COMMANDS = [("compiler", "check"), ("compiler", "compile"), ("runtime", "check"), ("runtime", "profile")]


@pytest.mark.parametrize(("command", "verb"), COMMANDS)
def test_verbs_of_both_commands_take_plugins(used, forget, tmp_path, capsys, command, verb):
    path = str(save(swished(), tmp_path))
    forget()
    main = compiler_main if command == "compiler" else runtime_main
    assert main([verb, path]) == 3
    assert capsys.readouterr() == ("", f"{command}: {path}: the program uses {UNUSED}\n")
    assert main([verb, path, "--plugin", "acme"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("OK ")


def test_a_program_is_shown_without_its_plugin(used, forget, tmp_path, capsys):
    path = str(save(swished(), tmp_path))
    forget()
    assert compiler_main(["show", path]) == 0
    assert " = acme.swish(" in capsys.readouterr().out


@pytest.mark.thorough
def test_compiler_ops_lists_and_describes_the_operators_of_a_plugin(installed, capsys):
    assert compiler_main(["ops", "acme.swish"]) == 2
    assert capsys.readouterr().err == ("compiler: there is no operator 'acme.swish'; give --plugin acme\n")
    line = "acme.swish(x, beta): The product x * sigmoid(beta * x): Ramachandran et al., 2017.\n"
    assert compiler_main(["ops", "acme.swish", "--plugin", "acme"]) == 0
    assert capsys.readouterr().out == line + "  ops.acme.swish(x, *, beta=1.0) -> y\n"
    assert compiler_main(["ops"]) == 0
    assert line in capsys.readouterr().out
    assert compiler_main(["ops", "--markdown"]) == 0
    assert "### `acme.swish`\n\n    acme.swish(x: Value, *, beta: float = 1.0) -> y" in capsys.readouterr().out


def test_a_program_with_a_plugin_is_a_file_and_text_like_any_other(used, tmp_path):
    program = files.load(save(swished(), tmp_path))
    assert from_text(to_text(program)) == program
    assert [(o.type, o.version) for o in program.operators if "." in o.type] == [("acme.swish", 1)]


def test_an_operator_that_is_only_imported_is_not_compiled(installed):
    assert told(ProgramError, lambda: swished().compile(batch=2)) == f"the program uses {UNUSED_IN_PYTHON}"


def test_every_operator_that_is_missing_is_named(used, tmp_path):
    path = save(swished(), tmp_path)
    program = files.load(path)
    for i, op in enumerate(program.blocks[0].ops[:8]):
        op.type = f"zeta{i % 2}.op{i}"
        program.operators.add(type=op.type, version=9)
    files.save(program, path, force=True)
    assert told(ProgramError, lambda: runtime.load(path)) == (
        f"{path}: the program uses 'zeta0.op0', 'zeta0.op2', 'zeta0.op4', 'zeta0.op6', 'zeta1.op1' and 3 more, of no "
        "plugin that is in use; call use_plugin('zeta0'), use_plugin('zeta1')"
    )


def test_a_plugin_in_use_that_lacks_the_operator_is_asked_for_the_closest(used, tmp_path):
    path = save(swished(), tmp_path)
    text = to_text(files.load(path)).replace("acme.swish", "acme.swsh")
    files.save(from_text(text), path, force=True)
    with pytest.raises(ProgramError, match=r"this runtime has no kernel 'acme.swsh'; the closest is 'acme.swish'$"):
        runtime.load(path)


def test_using_a_plugin_twice_does_nothing_more(used):
    before = OPS["acme.swish"], KERNELS["acme.swish"]
    compiler.use_plugin("acme")
    runtime.use_plugin("acme")
    assert (OPS["acme.swish"], KERNELS["acme.swish"]) == before


def test_an_unknown_plugin_is_answered_with_the_closest_and_code_2(installed, capsys, tmp_path):
    for main, group, verb in ((runtime_main, "kernels", "execute"), (compiler_main, "operators", "check")):
        command = "runtime" if verb == "execute" else "compiler"
        for name, hint in (("acne", "did you mean 'acme'?"), ("zeta", "installed are acme")):
            assert main([verb, "p.pb", "--plugin", name]) == 2
            sentence = f"there is no plugin {name!r} among the entry points prograd.{group}; {hint}"
            assert capsys.readouterr().err == f"{command}: {sentence}\n"


BROKEN_OPERATORS = {
    "a module that is missing": (
        dict(operators="import no_such_module", kernels=kernel()),
        "zeta_operators cannot be imported, ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "a module that fails": (
        dict(operators="raise ValueError('one\\ntwo')", kernels=kernel()),
        "zeta_operators cannot be imported, ValueError: one",
    ),
    "a module that leaves": (
        dict(operators="import sys; sys.exit('no')", kernels=kernel()),
        "zeta_operators cannot be imported, SystemExit: no",
    ),
    "no declaration": (
        dict(operators="x = 1", kernels=kernel()),
        "zeta_operators declares nothing in the namespace 'zeta'",
    ),
    "a name without a namespace": (
        dict(operators=operator().replace('(namespace="zeta")', ""), kernels=kernel()),
        "it declares 'cube' without a namespace; write namespace='zeta' beside it",
    ),
    "the name of a built-in operator": (
        dict(operators=operator().replace('(namespace="zeta")', "").replace("cube", "add"), kernels=kernel()),
        "operator 'add' is declared twice",
    ),
    "a namespace of another form": (
        dict(operators=operator().replace('"zeta"', '"ze-ta"'), kernels=kernel()),
        "cube: the namespace 'ze-ta' is no Python name",
    ),
    "a gradient that asks for what is not there": (
        dict(operators=operator(asked="dz"), kernels=kernel()),
        "the gradient of 'zeta.cube' asks for ['dz']; it may use ['dy', 'x', 'y']",
    ),
    "a rule that calls what is not there": (
        dict(operators=operator(rule="square(x) * dy"), kernels=kernel()),
        "a rule of 'zeta.cube' calls 'square', which its module does not define",
    ),
    "an operator without a docstring": (
        dict(operators=operator().replace('"x * x * x"', "pass"), kernels=kernel()),
        "operator 'zeta.cube' has no docstring; say in a line what it computes",
    ),
}

BROKEN_KERNELS = {
    "a kernel without a rule of types": (
        dict(kernels=kernel().replace("@kernel(cube_rule, ", "@kernel(")),
        "kernel 'zeta.cube' needs a rule of the types of its results: @kernel(rule)",
    ),
    "a kernel whose scratch depends on what is none of its operands": (
        dict(kernels=kernel(more=", scratch=lambda z: [z]")),
        "the scratch of kernel 'zeta.cube' may depend on ['out', 'x'], not on ['z']",
    ),
    "a kernel without a namespace": (
        dict(kernels=kernel().replace(', namespace="zeta"', "")),
        "it declares 'cube' without a namespace; write namespace='zeta' beside it",
    ),
    "a kernel of a built-in operator": (
        dict(kernels=kernel().replace(', namespace="zeta"', "").replace("cube", "add")),
        "kernel 'add' is declared twice",
    ),
}


@pytest.mark.parametrize(("modules", "sentence"), BROKEN_OPERATORS.values(), ids=BROKEN_OPERATORS)
def test_operators_that_are_wrong_are_one_sentence_and_leave_nothing(
    forget, tmp_path, monkeypatch, capsys, modules, sentence
):
    install(tmp_path, **modules)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(OPS)
    assert compiler_main(["ops", "add", "--plugin", "zeta"]) == 2
    assert capsys.readouterr().err == f"compiler: the plugin 'zeta' of zeta 2.0: {sentence}\n"
    assert set(OPS) == before


@pytest.mark.parametrize(("modules", "sentence"), BROKEN_KERNELS.values(), ids=BROKEN_KERNELS)
def test_kernels_that_are_wrong_are_one_sentence_and_leave_nothing(
    forget, tmp_path, monkeypatch, capsys, modules, sentence
):
    install(tmp_path, **modules)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(KERNELS), set(CONTRACTS)
    assert runtime_main(["check", "p.pb", "--plugin", "zeta"]) == 2
    assert capsys.readouterr().err == f"runtime: the plugin 'zeta' of zeta 2.0: {sentence}\n"
    assert (set(KERNELS), set(CONTRACTS)) == before


UNEQUAL = {
    "halves of two versions": (
        dict(operators=operator(", version=2"), kernels=kernel()),
        "the plugin 'zeta' of zeta 2.0: 'zeta.cube' is declared with version 1, and before with 2; "
        "its operator and its kernel have one version",
    ),
    "a kernel that is missing": (
        dict(operators=operator(), kernels=kernel().replace("cube", "root")),
        "the plugin 'zeta' declares no kernel 'zeta.cube', and it declares the operator",
    ),
    "other inputs": (
        dict(operators=operator(), kernels=kernel(inputs="x: TensorType, w: TensorType")),
        "the plugin 'zeta': the operator 'zeta.cube' has inputs (x), its kernel (x, w)",
    ),
    "other attributes": (
        dict(operators=operator(), kernels=kernel(inputs="x: TensorType, *, axis: int")),
        "the plugin 'zeta': the operator 'zeta.cube' has attributes (), its kernel (axis: int)",
    ),
    "no kernels at all": (
        dict(operators=operator()),
        "there is no plugin 'zeta' among the entry points prograd.kernels; no package that is installed has one",
    ),
}


@pytest.mark.parametrize(("modules", "sentence"), UNEQUAL.values(), ids=UNEQUAL)
def test_the_two_halves_of_a_plugin_are_held_together(forget, tmp_path, monkeypatch, modules, sentence):
    install(tmp_path, **modules)
    monkeypatch.syspath_prepend(tmp_path)
    assert told(PluginError, lambda: compiler.use_plugin("zeta")) == sentence
    assert "zeta" not in compiler_plugins.USED


def test_a_kernel_may_be_a_function_of_numpy(forget, tmp_path, monkeypatch):
    cube = "elementwise('cube', np.positive, lambda x: x, in_place=[(0, 0)], namespace='zeta')"
    install(
        tmp_path,
        operators=operator(),
        kernels=f"import numpy as np\nfrom runtime.kernel import elementwise\n{cube}",
    )
    monkeypatch.syspath_prepend(tmp_path)
    compiler.use_plugin("zeta")
    assert KERNELS["zeta.cube"].elementwise
    assert KERNELS["zeta.cube"].in_place == ((0, 0),)


TRAITS = """
from prograd_proto import TensorType
from registry import Value, op
from registry.traits import example, exact


@example((2, 3), (3,), count=4)
@exact
@op(namespace="zeta")
def cube(x: Value, w: Value, *, count: int) -> TensorType:
    "x * x * x."
    assert x.shape[-1] == w.shape[0] == 3
    return x.type
"""


def test_the_operators_of_a_plugin_have_traits(forget, tmp_path, monkeypatch):
    rule = "def rule(x, w, *, count: int):\n    return x"
    function = (
        "@kernel(rule, namespace='zeta', operations=cost)\ndef cube(x, w, *, count, out):\n    out[...] = x * x * x"
    )
    cost = "def cost(w):\n    return 7 * w.static_shape[0]"
    kernels = f"from runtime.kernel import kernel\n\n\n{rule}\n\n\n{cost}\n\n\n{function}"
    install(tmp_path, operators=TRAITS, kernels=kernels)
    monkeypatch.syspath_prepend(tmp_path)
    compiler.use_plugin("zeta")
    cube = find_op("zeta.cube")
    x, w = TensorType("float32", (2, 3)), TensorType("float32", (3,))
    assert operations("zeta.cube", [x, w], [x]) == 21
    assert dtype_rules(cube) is not None, "learnt from its example"
    program = Program()
    made = cube(ops.full.on(program)(shape=(2, 3), value=2.0), ops.full.on(program)(shape=(3,), value=1.0), count=4)
    program.outputs(y=made + program.input("x", "float32", (2, 3)))
    block = program.compile().desc.blocks[-1]
    assert [op.type for op in block.ops] == ["constant", "add"], "it was folded"


def test_a_plugins_operator_with_a_trait_is_simplified(forget, tmp_path, monkeypatch):
    declared = (
        operator()
        .replace("@op(", "@idempotent\n@op(")
        .replace("import Value, op\n", "import Value, op\nfrom registry.traits import idempotent\n")
    )
    install(tmp_path, operators=declared, kernels=kernel())
    monkeypatch.syspath_prepend(tmp_path)
    compiler.use_plugin("zeta")
    cube = find_op("zeta.cube")
    program = Program()
    program.outputs(y=cube(cube(program.input("x", "float32", (2, 3)))))
    assert [op.type for op in program.compile().desc.blocks[-1].ops] == ["zeta.cube"]


def test_the_operations_of_a_kernel_depend_on_its_operands(forget, tmp_path, monkeypatch):
    rule = "def rule(x):\n    return x"
    function = "@kernel(rule, namespace='zeta', operations=lambda y: 1)\ndef cube(x, *, out):\n    out[...] = x"
    kernels = f"from runtime.kernel import kernel\n\n\n{rule}\n\n\n{function}"
    install(tmp_path, operators=operator(), kernels=kernels)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError) as error:
        compiler.use_plugin("zeta")
    assert "the operations of kernel 'zeta.cube' may depend on ['out', 'x'], not on ['y']" in str(error.value)


def test_rows_of_a_plugins_operator_are_independent_and_its_operations_are_counted(used):
    x = TensorType("float32", (5, 4))
    assert operations("acme.swish", [x], [x]) == 80
    run = runtime.Run(swished().compile(batch=8))
    assert is_row_wise(run.session.bindings("predict")[0], ())
    rows = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    np.testing.assert_array_equal(run.predict(rows[:5])["prediction"], run.predict(rows)["prediction"][:5])


def test_traceback_shows_where_in_a_plugin_an_error_arose(forget, tmp_path, monkeypatch):
    install(tmp_path, kernels="1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError) as error:
        runtime_main(["check", "p.pb", "--plugin", "zeta", "--traceback"])
    assert isinstance(error.value.__cause__.__cause__, ZeroDivisionError)


FAULTS = {"a rule": ("return x", "check", 3), "a kernel": ("out[...] = x * x * x", "execute", 2)}


@pytest.mark.parametrize(("code", "verb", "exit_code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_in_the_code_of_a_plugin_is_not_called_one_of_prograd(
    forget, tmp_path, monkeypatch, capsys, code, verb, exit_code
):
    install(tmp_path, operators=operator(), kernels=kernel())
    monkeypatch.syspath_prepend(tmp_path)
    compiler.use_plugin("zeta")
    program = Program("cubes")
    x = program.parameter("x", (2,), compiler.constant(1.0))
    program.minimize(ops.sum(OPS["zeta.cube"](x)), sgd(rate=0.1))
    program.compile().save(tmp_path / "p.pb")
    forget()
    module = tmp_path / "zeta_kernels.py"
    module.write_text(module.read_text().replace(code, f"[][0]; {code}"))
    invalidate_caches()
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    more = ["--steps", "1", "-q"] if verb == "execute" else []
    assert runtime_main([verb, str(tmp_path / "p.pb"), "--plugin", "zeta", *more]) == exit_code
    err = capsys.readouterr().err
    assert re.fullmatch(r"runtime: .*op \d+ \(zeta.cube from .*\): its plugin failed, IndexError: list index.*\n", err)


def test_two_packages_with_a_plugin_of_one_name_are_refused(forget, tmp_path, monkeypatch):
    install(tmp_path, operators=operator(), kernels=kernel())
    install(tmp_path, kernels=kernel(), package="other")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError) as error:
        runtime.use_plugin("zeta")
    assert str(error.value) == "the plugin 'zeta' is there twice, of other 2.0 and of zeta 2.0; uninstall one of them"


def test_an_old_program_is_upgraded_by_its_plugin_and_a_newer_one_refused(used, tmp_path):
    path = save(swished(), tmp_path)
    old = files.load(path)
    upgrades.OPERATOR_VERSIONS["acme.swish"] = 2

    @operator_upgrade("acme.swish", 1)
    def halve(op, fresh):
        op.attributes[0].float_value /= 2
        return [op]

    [op, *_] = [op for block in files.load(path).blocks for op in block.ops if op.type == "acme.swish"]
    assert op.attributes[0].float_value == 0.25
    next(o for o in old.operators if o.type == "acme.swish").version = 3
    files.save(old, path, force=True)
    with pytest.raises(ProgramError, match=r"op 'acme.swish' version 3, the plugin 'acme' knows up to 2; update acme$"):
        files.load(path)


def test_a_program_that_was_loaded_before_its_plugin_is_not_taken_for_a_newer_one(used, tmp_path, monkeypatch):
    program = files.load(save(swished(), tmp_path))
    monkeypatch.setattr(OPS["acme.swish"], "version", 2)
    assert told(ProgramError, lambda: compiler_plugins.require_used(program)) == (
        "the program lists version 1 of 'acme.swish', its plugin has 2; use the plugin before the program is loaded"
    )


def test_a_program_of_an_unknown_plugin_keeps_the_versions_it_lists(tmp_path):
    text = to_text(files.load(save(linear(), tmp_path))).replace("operator sum ", "operator zeta.sum ")
    program = from_text(re.sub(r"= sum\(", "= zeta.sum(", text))
    next(o for o in program.operators if o.type == "zeta.sum").version = 7
    files.save(program, tmp_path / "q.pb")
    assert files.load(tmp_path / "q.pb") == program


def test_the_page_about_plugins_shows_the_example():
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    written = ("pyproject.toml", *(f"acme_prograd/{name}.py" for name in ("operators", "kernels", "lowering")))
    assert shown == {name: (EXAMPLE / name).read_text(encoding="utf-8") for name in written}
