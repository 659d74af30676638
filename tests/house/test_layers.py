"""The arrows between the rooms, read from the imports of every file."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from subjects.sources import tree_of

from compiler import Program, ops

ROOT = Path(__file__).parents[2]

ROOMS = {
    "prograd_proto": (ROOT / "proto" / "prograd_proto", {"prograd_proto", "google"}),
    "registry": (ROOT / "registry", {"prograd_proto", "registry"}),
    "compiler": (ROOT / "compiler", {"prograd_proto", "registry", "compiler", "runtime"}),
    "runtime": (ROOT / "runtime", {"prograd_proto", "runtime", "numpy", "safetensors", "tqdm"}),
    "prograd": (ROOT / "prograd", {"prograd_proto", "registry", "compiler", "runtime", "prograd"}),
}

COMPILER_MAY_IMPORT_OF_RUNTIME = {
    "runtime.step": "a compiler knows what its target writes over what, and when it needs it",
    "runtime.placement": "and how it lays out memory",
    "runtime.target": "and which engine that is",
    "runtime.command_line": "both commands are told, speak and end alike",
    "runtime.runs.interrupts": "and mind signals alike",
    "runtime.extras": "and name missing packages alike",
    "runtime.hidden_packages": "and packages that a file of the user hides",
    "runtime.files.output": "and write files alike, whole or not at all",
    "runtime.engines.choice": "and call engines by the same names",
    "runtime.runs.untrained": "and warn alike of weights that nothing trained",
    "runtime.errors": "and report the same faults of files, rows and limits by the same errors",
    "runtime.plugins": "the two halves of a plugin are held together where both are known",
}

OF_RUNTIME_IN_ONE_FILE = {
    ("compiler/passes/fold_constants.py", "runtime.one_op"): "what is folded has the bits of the kernel",
    (
        "compiler/build/last_batch.py",
        "runtime.files.tensor_files",
    ): "rows are counted in the file that the runtime reads",
    ("compiler/build/columns.py", "runtime.files.tensor_files"): "so are its columns",
    ("compiler/build/columns.py", "runtime.rows.encoding.encoding"): "a program keeps the encoding of packed rows",
    (
        "compiler/build/brought_arrays.py",
        "runtime.files.tensor_files",
    ): "initial values that an import brought are a file that the runtime reads",
    (
        "compiler/commands/views/ranks.py",
        "runtime.ranks.deal",
    ): "a view shows the step of a rank as the runtime deals it",
    ("compiler/commands/views/ranks.py", "runtime.ranks.exchanges"): "with what it sends",
    ("compiler/gradcheck/check.py", "runtime.runs.run"): "gradients are those of a run",
    ("compiler/compare/models.py", "runtime.runs.run"): "and so are the results of a program",
    ("compiler/commands/models/gradcheck.py", "runtime.runs.run"): "whose states may come from a file",
    ("compiler/commands/models/merge.py", "runtime.runs.run"): "as those that are merged",
    ("compiler/commands/models/quantize.py", "runtime.runs.run"): "and of those that become codes",
    ("compiler/build/program.py", "runtime.runs.run"): "which give the ranges of what is quantised",
    ("compiler/quantization/forms.py", "runtime.runs.run"): "as does a form of eight bits",
    ("compiler/quantization/ranges.py", "runtime.runs.run"): "by a run",
    ("compiler/quantization/ranges.py", "runtime.runs.evaluation"): "over rows",
    ("compiler/quantization/ranges.py", "runtime.rows.rows"): "in blocks",
    ("compiler/quantization/ranges.py", "runtime.rows.orders"): "of some of the rows",
    ("compiler/quantization/ranges.py", "runtime.rows.stored_column"): "which may lie in files",
    ("compiler/quantization/report.py", "runtime.runs.run"): "before and after",
    ("compiler/commands/models/build.py", "runtime.ahead.folder"): "a library is the runtime's own code in a folder",
    ("compiler/commands/models/build.py", "runtime.ahead.browser"): "or of a page",
    ("compiler/commands/models/build.py", "runtime.ahead.library"): "of a program's steps",
    ("compiler/commands/models/build.py", "runtime.ahead.machines"): "for a machine that the runtime knows",
    ("compiler/commands/models/build.py", "runtime.runs.run"): "with the states of a run",
    ("compiler/commands/models/merge.py", "runtime.files.tensor_files"): "and written as a run reads them",
    ("compiler/commands/models/given_feeds.py", "runtime.files.tensor_files"): "feeds are files that a run reads",
    ("compiler/commands/imports/process_limits.py", "runtime.memory.limit"): "whose memory counts",
    ("compiler/frontends/account.py", "runtime.memory.limit"): "with the memory that the process has already",
    ("compiler/exporters/onnx/folding.py", "runtime.one_op"): "what an export computes has the bits of the kernel",
    ("compiler/exporters/onnx/folding.py", "runtime.constants"): "of the constants of a program",
    ("compiler/exporters/onnx/folding.py", "runtime.memory.aligned"): "in memory that kernels accept",
    ("compiler/exporters/onnx/own_domain.py", "runtime.constants"): "attributes are written as arrays",
    ("compiler/exporters/onnx/states.py", "runtime.runs.run"): "the weights of a model are the states of a run",
    ("compiler/exporters/onnx/raw_columns.py", "runtime.rows.encoding.encoding"): "raw columns are encoded as rows are",
    ("compiler/exporters/onnx/raw_columns.py", "runtime.rows.encoding.column"): "column by column",
    ("compiler/commands/check.py", "runtime.rows.encoding.encoding"): "a check reads the encoding as a run does",
    ("compiler/frontends/torch/halves.py", "runtime.dtypes"): "the bits of bfloat16 are held as the runtime holds them",
    ("compiler/exporters/merged_states.py", "runtime.conversion"): "merged weights are rounded as a cast rounds",
    ("compiler/exporters/merged_states.py", "runtime.dtypes"): "in the dtypes of states",
    ("compiler/commands/views/show_engine.py", "runtime.engines.engine"): "an engine is asked with options",
    ("compiler/commands/views/show_engine.py", "runtime.entries"): "of an entry bound to sizes",
    ("compiler/commands/engine_arenas.py", "runtime.engines.engine"): "an engine is asked with options",
    ("compiler/commands/engine_arenas.py", "runtime.entries"): "of an entry bound to sizes",
}

OF_ROWS = {
    "numpy",
    "runtime.dtypes",
    "runtime.errors",
    "runtime.files",
    "runtime.language",
    "runtime.memory",
    "runtime.philox",
}
"""With `runtime.rows`, what packing rows may import: they are written as the runtime reads them."""

PACKING = ("compiler/data/", "compiler/commands/data.py", "prograd/data.py")
"""Folders and files that pack rows; nothing imports them before rows are packed."""

OF_WEIGHTS = {
    "runtime.conversion",
    "runtime.dtypes",
    "runtime.one_op",
    "runtime.errors",
    "runtime.files",
    "runtime.language",
}
"""What imports of language models may import: their files are read as the runtime reads them."""

WEIGHTS = (
    "compiler/frontends/language_models/",
    "compiler/commands/imports/import_lm.py",
    "compiler/exporters/language_models.py",
    "compiler/exporters/gguf.py",
    "compiler/exporters/gguf_read_back.py",
    "compiler/quantization/",
)
"""Folders and files that read and write language models, or weights as codes."""

ESTIMATORS = "prograd/sklearn/"
"""The folder that may import scikit-learn and NumPy; nothing imports it but a user who has both."""

ARRAYS = (
    "compiler/frontends/counted.py",
    "compiler/frontends/onnx/",
    "compiler/onnx_operators/",
    "compiler/exporters/onnx/",
    "compiler/gradcheck/",
    "compiler/compare/models.py",
    "compiler/compare/numbers.py",
    "compiler/quantization/",
    "compiler/frontends/language_models/gguf_",
    "compiler/exporters/gguf.py",
    "compiler/exporters/gguf_read_back.py",
    "compiler/commands/models/given_feeds.py",
)
"""Folders that may import NumPy: tensors of ONNX files, and constants of models, are arrays there.

Nothing imports them before a file is needed.
"""

ENGINES = {
    "runtime/engines/choice.py": "the engines by name",
    "runtime/target.py": "the engine that programs are compiled for",
    "runtime/operators.py": "the rules of operators stand beside its kernels",
    "runtime/plugins.py": "and plugins declare such kernels",
    "runtime/commands/cache.py": "what the native engine keeps on disk is listed and removed by hand",
    "runtime/engines/native/host.py": "what has no form runs as its NumPy kernel",
    "runtime/ahead/library.py": "a library has the code of the native engine",
    "runtime/ahead/machines.py": "for this machine, or for another",
    "runtime/ahead/resolved.py": "whose relocations it applies",
    "runtime/one_op.py": "one op alone: folding, initial values, conversions",
}
"""Files outside the room of an engine that know one; all others know what `runtime.engines.engine` says of any."""

CODEGEN = {
    "machine": set(),
    "board": set(),
    "actions": set(),
    "code": {"machine", "actions"},
    "code_bytes": {"machine", "actions", "code"},
    "code_bounds": {"machine", "actions", "code"},
    "elf": set(),
    "costs": {"machine", "board"},
    "ir": {"machine"},
    "math": {"ir"},
    "kernels": {"machine", "costs", "ir", "math"},
    "rules": {"machine", "costs", "ir", "math", "kernels"},
    "groups": {"machine", "ir", "kernels", "rules"},
    "emit": {"machine", "board", "actions", "code", "costs", "ir", "math", "kernels", "rules", "groups"},
    "lowering": {"machine", "costs", "ir", "kernels", "rules", "groups", "emit"},
    "lower": {"machine", "rules", "lowering"},
    "explain": {"rules", "groups", "emit", "lowering"},
    "control_phases": {"actions", "code", "costs", "lowering"},
    "control_code": {"actions", "code", "control_phases", "lowering"},
    "assemble": {"machine", "actions", "code", "control_phases", "control_code", "ir", "rules", "emit", "lowering"},
}
"""By package or module of `runtime.codegen`, the others of it that its files may import."""

KERNELS = {
    "matmul": set(),
    "moves": {"matmul"},
    "conv": {"matmul"},
    "attention": {"matmul", "moves"},
    "recurrent": {"matmul"},
    "partial_sums": {"matmul"},
}
"""By package or module of `runtime.codegen.kernels`, the packages of it that its files may import; others: none."""

KERNEL_PACKAGES = {"matmul", "moves", "conv", "attention", "recurrent"}

TABLE_OF_PASSES = "runtime.codegen.lowering.passes.pipeline"
"""All that other files of `runtime.codegen` may import of `runtime.codegen.lowering.passes`."""

LAZY = {"tqdm": "a bar is drawn only on a terminal"}


class Imported(NamedTuple):
    """An import: the module, the names that are taken from it, and where it stands."""

    module: str
    names: tuple[str, ...]
    at_once: bool
    for_types: bool


@cache
def imported(path: Path) -> list[Imported]:
    """Every import of a file; those in functions are not made at once."""
    found: list[Imported] = []
    waiting: list[tuple[ast.AST, bool, bool]] = [(tree_of(path), True, False)]
    while waiting:
        node, at_once, for_types = waiting.pop()
        if isinstance(node, ast.Import):
            found += [Imported(alias.name, (), at_once, for_types) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            found.append(Imported(node.module or "", tuple(alias.name for alias in node.names), at_once, for_types))
        elif not isinstance(node, ast.expr):
            at_once = at_once and not isinstance(node, ast.FunctionDef)
            for_types = for_types or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
            waiting += [(child, at_once, for_types) for child in ast.iter_child_nodes(node)]
    return found


def imports(path: Path) -> list[tuple[str, bool]]:
    """Every imported module, and whether it is imported when the file is."""
    return [(each.module, each.at_once) for each in imported(path)]


def files() -> list[tuple[str, Path]]:
    return [(room, path) for room, (folder, _) in ROOMS.items() for path in sorted(folder.rglob("*.py"))]


@pytest.mark.rule
def test_a_file_imports_only_what_its_room_may():
    assert [fault for room, path in files() for fault in wrong_imports(room, path)] == []


def wrong_imports(room: str, path: Path) -> Iterator[str]:
    of_rows = OF_ROWS | {"runtime.rows"} if str(path.relative_to(ROOT)).startswith(PACKING) else set[str]()
    of_rows = of_rows | OF_WEIGHTS if str(path.relative_to(ROOT)).startswith(WEIGHTS) else of_rows
    of_rows = of_rows | {"numpy"} if str(path.relative_to(ROOT)).startswith(ARRAYS) else of_rows
    of_rows = of_rows | {"numpy", "scipy", "sklearn"} if str(path.relative_to(ROOT)).startswith(ESTIMATORS) else of_rows
    for module, at_once in imports(path):
        if any(module == name or module.startswith(f"{name}.") for name in of_rows):
            continue
        top = module.partition(".")[0]
        if not (top in ROOMS[room][1] or top in sys.stdlib_module_names):
            yield f"{path} imports {module}"
        if at_once and top in LAZY:
            yield f"{path} imports {module} at once: {LAZY.get(top)}"
        if room == "compiler" and top == "runtime":
            allowed = any(module == name or module.startswith(f"{name}.") for name in COMPILER_MAY_IMPORT_OF_RUNTIME)
            allowed = allowed or (str(path.relative_to(ROOT)), module) in OF_RUNTIME_IN_ONE_FILE
            if not allowed:
                yield f"{path} imports {module}; of the runtime only {list(COMPILER_MAY_IMPORT_OF_RUNTIME)}"


def test_a_file_knows_no_engine_but_by_the_protocol():
    assert [fault for _, path in files() for fault in engines_known(path)] == []


def engines_known(path: Path) -> Iterator[str]:
    name = str(path.relative_to(ROOT))
    for module, _ in imports(path):
        engine = module.split(".")[2] if module.startswith("runtime.engines.") else ""
        if (ROOT / "runtime" / "engines" / engine / "__init__.py").exists() and engine:
            inside = name.startswith(f"runtime/engines/{engine}/")
            if not (inside or name in ENGINES):
                yield f"{name} imports {module}; of engines only runtime.engines.engine"


def crosses_codegen(file: str, module: str) -> bool:
    """Return True if a file of `runtime/codegen`, given by its path in there, must not import a module."""
    if module.startswith(("runtime.engines", "runtime.runs")):
        return True
    package, *within = file.removesuffix(".py").split("/")
    _, _, imported = module.partition("runtime.codegen.")
    first, *rest = imported.split(".")
    if first not in {"", package} | CODEGEN[package]:
        return True
    if first == "kernels" == package:
        other = rest[0] if rest and rest[0] in KERNEL_PACKAGES else within[0]
        return other not in KERNELS.get(within[0], set()) | {within[0]}
    if first == "lowering" and rest[:1] == ["passes"] and file != "lowering/passes/__init__.py":
        return within[:1] != ["passes"] and not module.startswith(TABLE_OF_PASSES)
    return False


def test_the_code_generator_imports_no_engine_and_its_packages_import_one_way():
    folder = ROOT / "runtime" / "codegen"
    found = [
        f"{path} imports {module}"
        for path in sorted(folder.rglob("*.py"))
        for module in {*_imported_modules(path, later=True), *(module for module, _ in imports(path))}
        if crosses_codegen(path.relative_to(folder).as_posix(), module)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("emit/code.py", "runtime.engines.native.jit"),
        ("ir/loop.py", "runtime.codegen.math.exponential"),
        ("rules/pool.py", "runtime.codegen.groups.nodes"),
        ("groups/group.py", "runtime.codegen.emit.body"),
        ("emit/body.py", "runtime.codegen.lowering.chunks"),
        ("lowering/phases.py", "runtime.codegen.lowering.passes.fuse"),
        ("lowering/phases.py", "runtime.codegen.lowering.passes"),
        ("emit/products.py", "runtime.codegen.lowering.passes.fuse"),
        ("kernels/attention/heads.py", "runtime.codegen.kernels.conv.plan"),
        ("kernels/recurrent/forward.py", "runtime.codegen.kernels.conv"),
        ("kernels/recurrent/forward.py", "runtime.codegen.kernels.attention.heads"),
        ("kernels/matmul/tile.py", "runtime.codegen.kernels.moves.layout"),
        ("kernels/steps.py", "runtime.codegen.kernels.matmul.tile"),
        ("kernels/partial_sums.py", "runtime.codegen.kernels.conv.plan"),
    ],
)
def test_an_import_across_packages_of_the_code_generator_would_be_seen(file: str, module: str):
    assert crosses_codegen(file, module)


def test_only_a_command_imports_its_verbs():
    verbs = (["compiler", "commands"], ["runtime", "commands"])
    outside = [
        path
        for _, path in files()
        if "commands" not in path.relative_to(ROOT).parts[:-1] and path.name != "__main__.py"
    ]
    assert len(outside) > 700
    assert [(path, module) for path in outside for module, _ in imports(path) if module.split(".")[:2] in verbs] == []


def test_no_files_import_each_other_in_a_circle():
    """A package is a file of its own, `__init__`; what only type checkers read does not count."""
    graph = import_graph(later=True)
    assert len(graph) > 300
    TopologicalSorter(graph).prepare()  # raises CycleError


CIRCLES = [
    {"registry.block", "registry.indexing", "registry.value"},  # a tensor knows its block
    {f"runtime.codegen.ir.{name}" for name in ("function", "halves", "loop", "module", "value")},  # and its function
    {"prograd", "prograd.layers"}
    | {f"prograd.layers.{name}" for name in ("asked", "attention", "conv", "dense", "embedding", "norm", "other_names")}
    | {f"prograd.layers.{name}" for name in ("recurrent", "residual", "transformer")},  # written as users would
]
"""Files that refer to each other in a circle, if imports for types and imports in functions count too."""


def test_files_refer_to_each_other_in_few_circles():
    graph = import_graph(later=True, for_types=True)
    assert circles(graph) == sorted(CIRCLES, key=sorted)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The largest sets of modules each of which refers to each other one, in the end."""
    left = {name: set(imports) for name, imports in graph.items()}
    while ends := {name for name, imports in left.items() if imports.isdisjoint(left)}:
        left = {name: imports for name, imports in left.items() if name not in ends}
    reached = {name: _reached(name, left) for name in left}
    found = {frozenset(other for other in reached[name] if name in reached[other]) for name in left}
    return sorted([{*each} for each in found if len(each) > 1], key=sorted)


def _reached(name: str, graph: dict[str, set[str]]) -> set[str]:
    found, waiting = set[str](), [name]
    while waiting:
        new = {each for each in graph[waiting.pop()] if each in graph} - found
        found |= new
        waiting += new
    return found


def test_a_circle_of_types_would_be_seen():
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": set[str](), "f": {"a", "f"}}
    assert circles(graph) == [{"a", "b", "c"}]


def test_a_circle_would_be_seen():
    graph = import_graph(later=False)
    graph["prograd_proto.dtypes"].add("prograd_proto.tensor_types")
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def import_graph(*, later: bool, for_types: bool = False) -> dict[str, set[str]]:
    """Map each module to its imports at load time, optionally with those inside functions and those for types."""
    names = {path: _module(folder.parent, path) for folder, _ in ROOMS.values() for path in folder.rglob("*.py")}
    known = set(names.values())
    return {
        name: {m for m in _imported_modules(path, later, for_types) if m in known} - {name}
        for path, name in names.items()
    }


def _module(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported_modules(path: Path, later: bool, types_too: bool = False) -> Iterator[str]:
    for module, names, at_once, for_types in imported(path):
        if (types_too or not for_types) and (at_once or later):
            yield from (module, *(f"{module}.{name}" for name in names))


def test_the_runtime_loads_numpy_and_protobuf_and_nothing_else():
    script = (
        "import sys; before = set(sys.modules); import runtime, runtime.runs.run, runtime.__main__\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(n for n in names if n not in sys.stdlib_module_names and not n.startswith('_')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["google", "numpy", "prograd_proto", "runtime"]


def test_a_step_whose_code_was_kept_runs_without_what_places_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("PROGRAD_CACHE", str(tmp_path / "cache"))
    program = Program("planned")
    program.outputs(y=ops.exp(program.input("x", "float32", (4,))))
    program.compile().save(tmp_path / "p.pb")
    script = (
        "import sys, numpy, runtime; run = runtime.load('p.pb', engine='native')\n"
        "run.predict(numpy.ones(4, 'float32')); print('runtime.placement.placement' in sys.modules)"
    )
    command = [sys.executable, "-c", script]
    runs = [subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [done.stdout.split() for done in runs] == [["True"], ["False"]]


@pytest.mark.rule
def test_nothing_in_the_rooms_evaluates_text_or_unpickles():
    forbidden = {"eval", "exec", "compile", "__import__"}
    for _, (folder, _) in ROOMS.items():
        for path in folder.rglob("*.py"):
            if path.name.endswith("_pb2.py"):
                continue
            if not re.search(rf"\b({'|'.join(forbidden)})\b", path.read_text(encoding="utf-8")):
                continue
            for node in ast.walk(tree_of(path)):
                called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
                assert called not in forbidden, f"{path}:{node.lineno} calls {called}"
            assert "pickle" not in {module for module, _ in imports(path)}, path
