"""The command `compiler`, as a user sees it: what it prints, and how it ends."""

from pathlib import Path

import pytest
from subjects.commands import run_compiler as run

from compiler import Program, ops, sgd, zeros
from prograd_proto.files import load, save
from prograd_proto.text import from_text


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A small program that trains and evaluates, compiled for 4 rows."""
    program = Program("line")
    x = program.input("x", "float32", ("batch", 3))
    w = program.parameter("w", (3,), zeros())
    loss = ops.mean(ops.square(x * w - 1.0))
    program.minimize(loss, sgd(0.1))
    path = tmp_path / "line.pb"
    program.compile(batch=4).save(path, force=True)
    return path


def test_show_prints_text_that_parses_back_to_the_program(program, capsys):
    code, out, err = run(capsys, "show", program)
    assert (code, err) == (0, "")
    assert from_text(out) == load(program)
    line = "tests/commands/test_compiler_cli.py:19"
    assert f"%mul_1: float32[batch, 3] = mul(%x, %w)  # forward, op 1, {line}" in out


def test_show_of_an_entry_prints_only_its_block(program, capsys):
    code, out, _ = run(capsys, "show", program, "--entry", "evaluate", "--bound")
    assert code == 0
    assert "float32[4, 3]" in out
    assert "batch, 3" not in out
    assert "sgd" not in out


def test_show_of_an_entry_prints_the_block_of_the_sizes_that_are_asked_for(program, capsys):
    code, out, _ = run(capsys, "show", program, "--entry", "evaluate", "--bound", "--bind", "batch=1")
    assert code == 0
    assert "float32[1, 3]" in out
    assert "float32[4, 3]" not in out


def test_show_of_an_unknown_entry_names_the_ones_there_are(program, capsys):
    code, out, err = run(capsys, "show", program, "--entry", "tran")
    assert (code, out) == (2, "")
    assert err == f"compiler: {program}: there is no entry 'tran'; did you mean 'train'?\n"
    _, _, err = run(capsys, "show", program, "--entry", "x")
    assert err.startswith(f"compiler: {program}: there is no entry 'x'; its entries are train")


def test_the_first_word_of_two_leads_to_both(capsys):
    code, _, err = run(capsys, "data")
    sentence = "there is no verb 'data'; the verbs are data pack, data show; see compiler --help"
    assert (code, err) == (2, f"compiler: {sentence}\n")


def test_check_says_what_the_program_is(program, capsys):
    code, out, err = run(capsys, "check", program)
    assert (code, err) == (0, "")
    assert out.startswith("OK ops=")
    assert "states=4 entries=train,evaluate program_sha256=" in out


def test_check_refuses_a_program_that_breaks_a_rule(program, capsys):
    desc = load(program)
    desc.blocks[0].ops[0].inputs[0] = "nothing"
    save(desc, program, force=True)
    code, out, err = run(capsys, "check", program)
    assert (code, out) == (3, "")
    assert "reads %nothing; this breaks the rule: every op reads only tensors that a parameter" in err


def test_compile_binds_another_size(program, capsys, tmp_path):
    output = tmp_path / "wide.pb"
    code, out, err = run(capsys, "compile", program, "--bind", "batch=64", "-o", output)
    assert (code, err) == (0, "")
    assert out.startswith("OK program_sha256=")
    sizes = [[dim.size for dim in binding.dims] for binding in load(output).entries[0].bindings]
    assert sizes == [[64]]


def test_compile_takes_the_text_form(program, capsys, tmp_path):
    _, text, _ = run(capsys, "show", program)
    (tmp_path / "line.txt").write_text(text)
    code, _, err = run(capsys, "compile", tmp_path / "line.txt", "-o", tmp_path / "again.pb")
    assert (code, err) == (0, "")
    assert load(tmp_path / "again.pb") == load(program)


def test_compile_overwrites_only_when_forced(program, capsys):
    before = program.read_bytes()
    code, out, err = run(capsys, "compile", program, "--bind", "batch=8", "-o", program)
    assert (code, out) == (2, "")
    assert err == f"compiler: {program}: the file exists; --force replaces it\n"
    assert program.read_bytes() == before
    assert run(capsys, "compile", program, "--bind", "batch=8", "-o", program, "--force")[0] == 0
    assert program.read_bytes() != before


def test_compile_dumps_the_program_after_a_pass(program, capsys):
    code, out, _ = run(capsys, "compile", program, "--dump-after", "eliminate_dead_ops")
    assert code == 0
    assert out.startswith("program line")
    assert out.splitlines()[-1].startswith("OK program_sha256=")


def test_compile_leaves_a_pass_out_and_sets_the_option_of_another(program, capsys, tmp_path):
    command = ["compile", program, "--dump-after", "order_ops"]
    _, out, _ = run(capsys, *command)
    code, with_all, _ = run(capsys, *command, "--without", "fold_constants", "--option", "plan_memory.thorough=true")
    assert code == 0
    assert with_all.count(" = ") > out.count(" = "), "there are ops that folding makes constants of"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--dump-after", "eliminate"],
            "--dump-after eliminate: no such pass runs; did you mean 'eliminate_dead_ops'?; those that do are ",
        ),
        (["--without", "fold"], "--without fold: there is no pass 'fold'"),
        (
            ["--without", "list_operators"],
            "--without list_operators: list_operators cannot be left out: compile promises 'listed' ("
            "a reader can check that it has these operators)",
        ),
        (
            ["--option", "merge_identical"],
            "--option merge_identical: write pass.option=value, as in merge_identical.most_tried=0",
        ),
        (
            ["--option", "merge_identical.most=1"],
            "--option merge_identical.most=1: merge_identical: there is no option 'most'; its options are most_tried",
        ),
        (
            ["--option", "plan_memory.thorough=1"],
            "--option plan_memory.thorough=1: plan_memory: the option thorough is '1'; it takes bool",
        ),
        (["--bind", "batch"], "--bind batch: write symbol=size, as in batch=64"),
        (["--bind", "batch=²"], "--bind batch=²: write symbol=size, as in batch=64"),
        (["--bind", "btch=3"], "there is no symbol 'btch' in this program; did you mean 'batch'?"),
        (["--bind", "batch=0"], "batch=0: a symbol is bound to a whole number, 1 or more, of at most 64 bits"),
    ],
)
def test_compile_explains_what_it_cannot_do(program, capsys, arguments, sentence):
    code, _, err = run(capsys, "compile", program, *arguments)
    assert code in (2, 3)
    assert sentence in err


def test_ops_lists_operators_and_knows_near_misses(capsys):
    code, out, _ = run(capsys, "ops", "matmul")
    assert (code, out) == (
        0,
        "matmul(a, b, transpose_a, transpose_b): "
        "Return the matrix product a @ b over the last two axes; the flags transpose an operand first.\n"
        "  ops.matmul(a, b, *, transpose_a=False, transpose_b=False) -> y\n"
        "  Leading axes broadcast as in NumPy; both operands have at least two axes. "
        "The result of bfloat16 operands is\n"
        "  float32: their products are exact in it, and it has the sums.\n",
    )
    code, out, _ = run(capsys, "ops", "flip")
    assert code == 0
    line, call = out.splitlines()
    assert line == "flip(x, axis): Return x with the elements reversed along `axis`; along all axes if empty."
    assert call == "  ops.flip(x, *, axis=())"
    assert run(capsys, "ops", "matmull") == (
        2,
        "",
        "compiler: there is no operator 'matmull'; did you mean 'matmul'?\n",
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sho"], "compiler: there is no verb 'sho'; did you mean 'show'?; see compiler --help"),
        (["show"], "compiler: the following arguments are required: program; see compiler show --help\n"),
    ],
)
def test_usage_errors_are_one_sentence(capsys, arguments, sentence):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


@pytest.mark.parametrize("verb", ["show", "check", "compile", "diff", "ops"])
def test_the_help_of_every_verb_has_an_example(capsys, verb):
    code, out, _ = run(capsys, verb, "--help")
    assert code == 0
    assert f"examples:\n  compiler {verb} " in out


def test_a_missing_or_damaged_file_is_one_sentence(tmp_path, capsys):
    assert run(capsys, "show", tmp_path / "none.pb") == (3, "", f"compiler: {tmp_path}/none.pb: no such file\n")
    (tmp_path / "noise.pb").write_bytes(b"\xff\x00noise")
    code, out, err = run(capsys, "check", tmp_path / "noise.pb")
    assert (code, out, err.count("\n")) == (3, "", 1)
