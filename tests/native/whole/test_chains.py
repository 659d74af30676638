"""Chains: what follows each other strip by strip gives what phases give, whichever strip is computed first."""

from pathlib import Path

import numpy as np
import pytest
from native.bound import bind_compiled, lowered
from native.whole.test_chains_of_images import in_another_order

import runtime
from compiler import Program, adam, ops
from runtime.codegen.explain import explained
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.engines.native.cpu import this_machine
from runtime.memory.aligned import aligned_bytes

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.pb"))


def table(batch: int = 64, width: int = 32) -> bytes:
    """A network of small layers with one result."""
    program = Program("table")
    x, y = program.input("x", "float32", ("batch", 24)), program.input("y", "float32", ("batch", 1))
    h = x
    for i, (rows, columns) in enumerate([(24, width), (width, width)]):
        h = ops.relu(h @ program.parameter(f"w{i}", (rows, columns)) + program.parameter(f"b{i}", (columns,)))
    y_hat = ops.tanh(h) @ program.parameter("w", (width, 1)) + program.parameter("b", (1,))
    program.minimize(ops.mean(ops.square(y_hat - y)), adam(1e-2))
    return program.compile(batch=batch)


def names_of(step: LoweredBlock) -> list[list[str]]:
    return [[step.groups[i].name for i in chain] for chain in step.phases.tiled_chains]


def lowered_for(program: object, threads: int) -> LoweredBlock:
    run = runtime.Run(program, engine="reference")
    return lowered(run.session.bindings("train")[0].block, (), this_machine(), threads)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("program", ["table", *EXAMPLES], ids=lambda given: getattr(given, "stem", given))
def test_strips_read_only_what_strips_of_their_rows_made(program: object):
    """Memory is NaN before a step, and strips come in the wrong order: whoever reads other rows finds NaN."""
    run = (
        runtime.load(program, engine="reference")
        if isinstance(program, Path)
        else runtime.Run(table(), engine="reference")
    )
    bound = run.session.bindings("train")[0]
    step = lowered(bound.block, (), this_machine(), 2, blocks=run.program.blocks)
    if not step.phases.tiled_chains or any(group.is_host for group in step.groups):
        pytest.skip("no chains, or NumPy computes some of it")
    found = []
    for make in (lambda compiled: compiled(), in_another_order):
        states = {name: array.copy() for name, array in run.states.arrays.items()}
        arena = aligned_bytes(step.memory.arena_bytes)
        arena.view("f4")[...] = np.nan
        compiled = bind_compiled(step, states, arena)
        rng = np.random.default_rng(0)
        for name in step.nodes.feeds:
            feed = compiled.arrays[name]
            feed[...] = rng.standard_normal(feed.shape) if feed.dtype.kind == "f" else rng.integers(0, 2, feed.shape)
        make(compiled)
        found.append(states)
    for name, array in found[0].items():
        assert array.tobytes() == found[1][name].tobytes(), name
        assert np.isfinite(array).all(), name


def test_a_network_of_small_layers_is_one_chain_up_to_the_sums_over_all_rows():
    step = lowered_for(table(128, 64), 2)
    [chain] = names_of(step)
    assert chain[0].startswith("matmul")
    assert sum(name.startswith("outer_sum") for name in chain) == 3
    assert step.phases.count < lowered_for(table(128, 64), 1).phases.count / 3


def test_chains_are_shown():
    lines = list(explained(lowered_for(table(128, 64), 2)))
    last = [line for line in lines if "outer_sum" in line][-1]
    assert lines[1].split("; ")[1].startswith("2 work items in 2 chunks with those of "), lines
    assert last.endswith(" other groups and in 1 chunk"), lines


def test_one_thread_and_rows_that_threads_cannot_share_have_none():
    assert not names_of(lowered_for(table(), 1))
    assert not names_of(lowered_for(table(63), 2))


def test_what_reads_other_rows_waits():
    program = Program("pairs")
    x = program.input("x", "float32", ("batch", 128))
    h = ops.relu(x @ program.parameter("w", (128, 128)))
    g = ops.tanh(ops.matmul(h, ops.transpose(h)))  # of all pairs of rows
    program.minimize(ops.mean(ops.square(g)), adam(1e-3))
    step = lowered_for(program.compile(batch=128), 2)
    pairs = next(i for i, group in enumerate(step.groups) if "tanh" in group.name and group.product)
    maker = next(i for i, group in enumerate(step.groups) if "relu" in group.name and group.product)
    assert step.phases.first[pairs] > step.phases.last[maker]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_any_number_of_threads_gives_the_same_bits(threads: int):
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((480, 24)).astype("f4"), "y": rng.standard_normal((480, 1)).astype("f4")}
    runs = [runtime.Run(table(48), engine="native", threads=number) for number in (1, threads)]
    for run in runs:
        assert len(list(run.events(data=data, epochs=3, ahead=100)))
    assert runs[0].state_sha256 == runs[1].state_sha256
