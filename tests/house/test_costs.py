"""Prices of kernels stand in one file, and a benchmark measures each of their parameters."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODEGEN = ROOT / "runtime" / "codegen"

FILES = sorted(CODEGEN.rglob("*.py"))


def times_of(source: str) -> Iterator[str]:
    """Yield the constants of time that a file declares, and the numbers in its costs of kernel steps."""
    tree = ast.parse(source)
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if re.search(r"CYCLE|SECOND|_NS\b", ast.unparse(target)):
                yield ast.unparse(target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "KernelStep":
            priced = [*node.args[2:3], *(keyword.value for keyword in node.keywords if keyword.arg == "cost")]
        elif isinstance(node, ast.Assign | ast.AugAssign):
            names = node.targets if isinstance(node, ast.Assign) else [node.target]
            priced = [node.value] if any("cost" in ast.unparse(name) for name in names) else []
        else:
            continue
        numbers = [x for value in priced for x in ast.walk(value) if isinstance(x, ast.Constant)]
        yield from (ast.unparse(x) for x in numbers if isinstance(x.value, float))


@pytest.mark.rule
def test_only_the_cost_model_has_times():
    [model] = [path for path in FILES if path.name == "costs.py"]
    assert len(list(times_of(model.read_text()))) > 30
    others = {path: path.read_text() for path in FILES if path != model}
    assert len(others) > 100
    found = {path: times for path, source in others.items() if (times := list(times_of(source)))}
    assert found == {}, "these times belong in runtime/codegen/costs.py"
    assert [path for path, source in others.items() if re.search(r"(?i)nanosecond|microsecond", source)] == []


def test_a_time_elsewhere_would_be_seen():
    assert list(times_of("TAP_NANOSECONDS: Final = 0.3\n")) == ["TAP_NANOSECONDS"]
    assert list(times_of("step = KernelStep(write, 3, size * 0.2)\n")) == ["0.2"]
    assert list(times_of("cost = size * 0.5\n")) == ["0.5"]


def test_a_benchmark_measures_every_parameter():
    declared = [node for node in ast.parse((CODEGEN / "costs.py").read_text()).body if isinstance(node, ast.AnnAssign)]
    names = {ast.unparse(node.target) for node in declared}
    parameters = {name for name in names if not name.startswith(("MIN_", "MAX_"))}
    assert measured_names((ROOT / "benchmarks" / "costs.py").read_text()) == parameters


def measured_names(source: str) -> set[str]:
    """Return the keys of tables of parameters, and the names that functions are registered for by `measures`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            calls = [call for call in node.decorator_list if isinstance(call, ast.Call)]
            registered = [call for call in calls if ast.unparse(call.func) == "measures"]
            found |= {ast.literal_eval(name) for call in registered for name in call.args}
        if isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.value, ast.Dict):
            is_table = ast.unparse(node.target) in ("MEASURED", "PRICED", "COUNTED")
            found |= {ast.literal_eval(key) for key in node.value.keys if is_table and key is not None}
    return found
