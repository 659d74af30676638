"""`compiler passes`, and what `compiler plan` prints of the passes that it runs."""

import json

import pytest
from subjects.commands import run_compiler

from compiler import Program, global_norm, momentum, ops
from compiler.passes.pipeline import PASSES
from compiler.planning.pipeline import PLANNING
from runtime.codegen.lowering.passes.pipeline import PASSES as LOWERING


def test_a_table_is_printed_in_order_with_every_reason_on_a_line_of_its_own(capsys):
    code, out, _ = run_compiler(capsys, "passes", "compile")
    lines = out.splitlines()
    heads = [line for line in lines if line[:2].strip().isdigit()]
    assert (code, lines[0]) == (0, f"compiler compile: {len(PASSES.names)} passes, in order")
    assert heads == [f"{number:2} {each.name}: {each.does}" for number, each in enumerate(PASSES, 1)]
    assert "     requires    folded           a factor may be folded to 1, and is then removed" in lines
    assert "     invalidates planned          lifetimes depend on the order" in lines
    assert "     option      thorough: bool = False  search longer for a small arena" in out
    assert "   promises      bound            a step has static sizes" in lines
    assert max(map(len, lines)) <= 132


def test_the_passes_of_lowering_are_printed_with_the_steps_that_they_apply_to(capsys):
    code, out, _ = run_compiler(capsys, "passes", "native")
    lines = out.splitlines()
    heads = [line for line in lines if line[:2].strip().isdigit()]
    assert (code, lines[0]) == (0, f"lowering by the native engine: {len(LOWERING.passes)} passes, in order")
    assert heads == [f"{number:2} {each.name}: {each.does}" for number, each in enumerate(LOWERING, 1)]
    assert lines.count("     applies to  instrumented steps") == 1
    assert "   promises      memory        the engine binds offsets to addresses" in lines
    assert max(map(len, lines)) <= 132


def test_all_tables_are_printed_unless_one_is_named(capsys):
    _, compiles, _ = run_compiler(capsys, "passes", "compile")
    _, plans, _ = run_compiler(capsys, "passes", "plan")
    _, lowers, _ = run_compiler(capsys, "passes", "native")
    _, together, _ = run_compiler(capsys, "passes")
    assert together == f"{compiles}\n{plans}\n{lowers}"
    assert "   given         inference forms, nothing dead, with codes, rounded, bound, " in plans


def test_a_program_reads_the_same_as_json(capsys):
    _, out, _ = run_compiler(capsys, "passes", "--json")
    tables = json.loads(out)
    assert {name: [each["name"] for each in table["passes"]] for name, table in tables.items()} == {
        "compile": PASSES.names,
        "plan": PLANNING.names,
        "native": [each.name for each in LOWERING],
    }
    assert {each["name"]: each["applies_to"] for each in tables["native"]["passes"]}["separate"] == "instrumented steps"
    keep_budget = tables["plan"]["passes"][2]
    assert keep_budget["requires"]["planned"] == "a block within the budget is not changed"
    assert keep_budget["options"][0] == {
        "name": "budget",
        "type": "int | None",
        "value": None,
        "meaning": "bytes that no arena may exceed.",
    }


def test_another_table_is_refused_in_a_sentence(capsys):
    assert run_compiler(capsys, "passes", "pan") == (
        2,
        "",
        "compiler: there is no table of passes 'pan'; did you mean 'plan'?; there are compile, plan, native\n",
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory):
    """A compiled perceptron that can do with a smaller arena."""
    program = Program()
    x = h = program.input("x", "float32", ("n", 16))
    for i in range(6):
        h = ops.tanh(h @ program.parameter(f"w{i}", (16, 16)))
    program.minimize(ops.mean(ops.square(h - x)), momentum(0.1, clip=global_norm(1.0)))
    path = tmp_path_factory.mktemp("plan") / "deep.pb"
    program.compile(n=64).save(path, force=True)
    return path


def dumped(capsys, program, *arguments: object) -> str:
    code, out, err = run_compiler(capsys, "plan", program, *arguments)
    assert (code, err) == (0, "")
    assert out.startswith("program ")
    return out


def test_plan_prints_the_program_after_each_of_its_passes(capsys, program):
    asked = ("--budget", "36KiB", "--spill")
    before = dumped(capsys, program, *asked, "--dump-after", "plan_memory")
    after = dumped(capsys, program, *asked, "--dump-after", "keep_budget")
    listed = dumped(capsys, program, *asked, "--dump-after", "list_operators")
    assert ".again" not in before
    assert ".again" in after
    assert "operator spill version 1" not in after
    assert "operator spill version 1" in listed, "the operators are listed after that"


def test_plan_prints_the_program_after_the_passes_of_compile_when_these_run_anew(capsys, program):
    assert dumped(capsys, program, "--threads", 2, "--dump-after", "order_ops")
    assert run_compiler(capsys, "plan", program, "--dump-after", "order_ops") == (
        2,
        "",
        "compiler: --dump-after order_ops: no such pass runs; those that do are plan_memory\n",
    )
