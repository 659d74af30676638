"""The views of a run of several processes: its exchanges in `show`, `plan` and `profile`, with their bytes."""

import numpy as np
import pytest
from subjects.commands import run_compiler
from subjects.ranks import LAUNCHER, job, starts_jobs

from compiler import Program, adam, ops
from prograd import layers
from runtime.ranks.deal import dealt
from runtime.ranks.exchanges import exchanges


def trained(program):
    """Return the bound block of the training."""
    return program.blocks[next(e for e in program.entries if e.name == "train").bindings[0].block]


@pytest.mark.thorough
def test_show_prints_the_step_of_a_rank_with_its_exchanges(folder, capsys):
    path = folder / "net.pb"
    code, out, err = run_compiler(capsys, "show", path, "--entry", "train", "--bound", "--rank", "1/4", "--zero")
    assert code == 0, err
    assert sum("= all_gather(" in line for line in out.splitlines()) == 2
    assert any("= all_reduce(" in line and "rank=1, ranks=4" in line for line in out.splitlines())
    code, out, err = run_compiler(capsys, "show", path, "--rank", "1/4", "--engine", "native")
    assert code == 0, err
    assert any("all_reduce" in line for line in out.splitlines())
    code, out, err = run_compiler(capsys, "show", path, "--rank", "3/4", "--memory")
    assert (code, err) == (0, "")


def test_plan_prints_the_memory_of_each_rank(folder, capsys):
    path = folder / "net.pb"
    code, out, err = run_compiler(capsys, "plan", path, "--ranks", "2", "--zero")
    assert code == 0, err
    whole = 8 * 3 + 2 * 8 + 2 * 4 * 128 + 4 * 3 * (64 * 128 + 128 * 10 + 3 * 128 + 10)  # counters, counts, statistics
    cut = whole - 4 * (64 * 128 + 128 * 10)
    out = out.splitlines()
    at = out.index("train by 2 ranks, whose exchanges are:")
    lines = [line for line in out[at:] if line.startswith("  rank ")]
    assert [line.partition(",")[0] for line in lines] == [f"  rank {r}: states {cut / 1024:.1f} KiB" for r in range(2)]
    assert out[at + 1 : at + 5] == [
        "  all_reduce of 2 tensors, 16 bytes",
        "  all_reduce of 10 tensors, 39.5 KiB",
        "  all_gather of 1 tensor, 32.0 KiB",
        "  all_gather of 1 tensor, 5.00 KiB",
    ]


@pytest.mark.parametrize("cuts", [False, True])
def test_the_bytes_of_all_ranks_are_those_that_a_tree_needs(cuts):
    program = Program("wide", seed=1)
    x = program.input("x", "float32", ("batch", 512))
    program.minimize(ops.mean(ops.square(layers.dense(x, "only", 512, bias=False))), adam())
    whole, ranks = program.compile(batch=32, shards=4).desc, 4
    nbytes = 4 * 512 * 512
    sent = 0
    for rank in range(ranks):
        found = list(exchanges(trained(dealt(whole, rank, ranks, cuts_states=cuts))))
        kinds = [one.op.type for one in found if one.nbytes == nbytes]
        assert kinds == (["reduce_scatter", "all_gather"] if cuts else ["all_reduce"])
        sent += sum(one.sent for one in found if one.nbytes == nbytes)
    assert sent == 2 * (ranks - 1) * nbytes, "2 (n - 1) / n of the bytes by each of n ranks"


@pytest.mark.thorough
@starts_jobs
def test_the_exchanges_of_a_run_can_be_profiled(folder):
    words = ["profile", "net.pb", "--engine", "native", "--threads", "1", "--mpi", "--zero", "--by", "type"]
    ended = job(2, words, folder, LAUNCHER)
    assert ended.code == 0, ended
    names = [line.split()[0] for line in ended.out.splitlines() if line]
    assert {"all_reduce", "all_gather"} <= set(names)
    assert ended.out.count("OK entry=train") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["show", "--rank", "0/4"],
            "--rank is for the step that runs; add --entry train --bound, or --memory, or --engine",
        ),
        (["show", "--memory", "--zero"], "--zero cuts states among ranks; say which one to show, as in --rank 0/4"),
        (["plan", "--zero"], "--zero cuts states among ranks; say how many there are, as in --ranks 4"),
        (
            ["plan", "--ranks", "9"],
            "{path}: a step has at most 8 shards, and there are 9 ranks; compile the program with as many, "
            "as in compile(batch=..., shards=9)",
        ),
    ],
)  # fmt: skip
def test_views_of_ranks_that_make_no_sense_are_refused(words, sentence, folder, capsys):
    path = folder / "net.pb"
    code, out, err = run_compiler(capsys, words[0], path, *words[1:])
    assert (code, out) == (2, "")
    assert err == f"compiler: {sentence.format(path=path)}\n"


def test_a_rank_that_is_none_is_refused(folder, capsys):
    code, _, err = run_compiler(capsys, "show", folder / "net.pb", "--rank", "4/4", "--memory")
    assert code == 2
    assert err == (
        "compiler: argument --rank: '4/4' is no process R/N, as in 0/4: from 0 to N - 1, and N is 2 or more; "
        "see compiler show --help\n"
    )


def test_cut_states_have_the_elements_of_their_rank():
    program = Program("wide", seed=1)
    x = program.input("x", "float32", ("batch", 33))
    program.minimize(ops.mean(ops.square(layers.dense(x, "only", 100, bias=False))), adam())
    whole = program.compile(batch=12, shards=3).desc
    sizes = []
    for rank in range(3):
        states = {state.name: state for state in dealt(whole, rank, 3, cuts_states=True).states}
        [dim] = states["only.w.m"].shape.dims
        sizes.append(dim.size)
        assert len(states["only.w"].shape.dims) == 2
    assert sizes == list(np.diff([0, 1100, 2200, 3300]))
