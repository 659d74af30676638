"""Chains of large tensors: a few images go through several groups at a time, and no bit depends on that."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from native.bound import bind_compiled, lowered

import runtime
from compiler import Program, normal, ops, sgd
from compiler.build.compiled import Compiled
from runtime.codegen.explain import explained
from runtime.codegen.lowering import in_place, tiled_chains
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.driver import Driver
from runtime.engines.native.step import CompiledStep
from runtime.memory.aligned import aligned_bytes

CASES = [
    pytest.param(32, 16, 64, "", id="32 images"),
    pytest.param(31, 20, 64, "", id="31 images"),
    pytest.param(32, 32, 32, "bfloat16", id="mixed"),
]


def network(images: int, extent: int, channels: int, mixed: str = "") -> Compiled:
    """Two inverted residuals and a convolution of 3 x 3, with batch norm after each convolution."""
    program = Program("images", seed=5)
    x, y = program.input("x", "float32", ("batch", extent, extent, 16)), program.input("y", "int64", ("batch",))
    near = normal(0.0, 0.2)

    def convolved(x: Any, name: str, wide: int, size: int = 1, stride: int = 1, groups: int = 1) -> Any:
        deep = int(x.shape[-1])
        w = program.parameter(f"{name}.w", (size, size, deep // groups, wide), near)
        z = ops.conv2d(x, w, stride=(stride, stride), padding=(size // 2,) * 4, groups=groups)
        states = [program.parameter(f"{name}.{part}", (wide,), normal(1.0, 0.1)) for part in ("scale", "bias")]
        states += [program.buffer(f"{name}.{part}", (wide,)) for part in ("mean", "variance")]
        z, mean, variance, *_ = ops.batch_norm(z, *states)
        program.update(states[2], mean)
        program.update(states[3], variance)
        return z

    h = ops.relu(convolved(x, "stem", channels // 2, size=3))
    for i, stride in enumerate((1, 2)):
        inner = ops.relu6(convolved(h, f"{i}.expand", channels))
        inner = ops.hard_swish(convolved(inner, f"{i}.depthwise", channels, size=3, stride=stride, groups=channels))
        out = convolved(inner, f"{i}.project", channels // 2)
        h = h + out if stride == 1 else out
    h = ops.mean(ops.relu(convolved(h, "last", channels, size=3)), axis=(1, 2))
    logits = h @ program.parameter("out", (channels, 10), near)
    program.minimize(ops.softmax_cross_entropy(logits, y), sgd(0.05))
    program.outputs(logits=logits)
    return program.compile(batch=images, mixed=mixed or None)


def rows(images: int, extent: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(images)
    x = rng.standard_normal((images, extent, extent, 16)).astype("f4")
    return {"x": x, "y": rng.integers(0, 10, images)}


def lowered_for(program: Compiled, threads: int) -> LoweredBlock:
    run = runtime.Run(program, engine="reference")
    block = run.session.bindings("train")[0].block
    return lowered(block, (), this_machine(), threads, 1 << 30, blocks=run.program.blocks)


def trained(program: Compiled, feeds: dict[str, np.ndarray], threads: int, engine: str = "native") -> Any:
    run = runtime.Run(program, engine=engine, threads=threads)
    losses = [run.step(feeds)["loss"].item() for _ in range(3)]
    return losses, run.state_sha256


def without_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each group have its phases, and each tensor its memory; code that is kept belongs to the other lowering."""
    monkeypatch.setattr(tiled_chains, "MIN_TILED_BYTES", 1 << 60)
    monkeypatch.setattr(tiled_chains, "MIN_LONE_TILED_BYTES", 1 << 60)
    monkeypatch.setattr(in_place, "MIN_OVERWRITTEN_BYTES", 1 << 60)
    monkeypatch.setenv("PROGRAD_CACHE", "")


@pytest.mark.thorough
@pytest.mark.parametrize(("images", "extent", "channels", "mixed"), CASES)
def test_chains_change_no_bit(
    images: int, extent: int, channels: int, mixed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROGRAD_CACHE", "")
    program, feeds = network(images, extent, channels, mixed), rows(images, extent)
    found = [trained(program, feeds, threads) for threads in (1, 2, 3)]
    reference, _ = trained(program, feeds, 1, "reference")
    without_chains(monkeypatch)
    assert found == [trained(program, feeds, 1)] * 3
    np.testing.assert_allclose(found[0][0], reference, rtol=2e-2 if mixed else 1e-4)


@pytest.mark.thorough
def test_nan_goes_where_it_goes_without_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGRAD_CACHE", "")
    program, feeds = network(32, 16, 64), rows(32, 16)
    feeds["x"][7, 3, 4, 2] = np.nan
    run = runtime.Run(program, engine="native", threads=1)
    run.step(feeds)
    without_chains(monkeypatch)
    other = runtime.Run(program, engine="native", threads=1)
    other.step(feeds)
    for name, array in run.states.arrays.items():
        np.testing.assert_array_equal(np.isnan(array), np.isnan(other.states.arrays[name]), err_msg=name)
    assert np.isnan(run.states.arrays["last.w"]).any()


def test_the_gradient_of_a_norm_and_those_of_the_convolution_before_it_are_one_chain() -> None:
    step = lowered_for(network(32, 16, 64), 1)
    chains = [[step.groups[i].name for i in chain] for chain in step.phases.tiled_chains]
    found = [names for names in chains if len(names) > 3 and names[0].endswith("+sub+mul")]
    assert found
    assert all(any("filter_gradient" in name for name in names) for names in found)
    assert all("input_gradient" in " ".join(names) and "+sum+" in names[-1] for names in found)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_begin_a_chain_with_the_tiles_that_they_took_last(threads: int) -> None:
    """One thread takes tiles from the start of the list, two threads from both ends of it."""
    step = lowered_for(network(32, 16, 64), threads)
    is_backwards: list[bool] = []
    for chain, runs in zip(step.phases.tiled_chains, step.phases.runs, strict=True):
        if runs == threads:
            continue  # a chain of small groups
        number = len(step.steps[chain[0]].prepacked) + (step.steps[chain[0]].tiled or 0)
        taken = [ranges[0] for phase in step.chunks for ranges in phase]
        starts = [each.start for each in taken if (each.group, each.step) == (chain[0], number)]
        half = runs // threads
        turned = [x for first in range(0, runs, half) for x in reversed(sorted(starts)[first : first + half])]
        assert len(starts) == runs
        assert starts in (sorted(starts), turned)
        is_backwards.append(starts == turned)
    assert len(is_backwards) > 5
    assert all(one != other for one, other in pairwise(is_backwards))


def test_a_chain_goes_on_image_by_image_where_gradients_of_filters_add_to_sums_of_four_images() -> None:
    step = lowered_for(network(32, 16, 64), 2)
    chains = list(zip(step.phases.tiled_chains, step.phases.tiles, step.phases.runs, strict=True))
    found = [each for each in chains if any("filter_gradient" in step.groups[i].name for i in each[0])]
    assert found
    for chain, tiles, runs in found:
        [chunk, *_] = [ranges for phase in step.chunks for ranges in phase if ranges[0].group == chain[0]]
        assert [each.group for each in chunk] == chain * (tiles // runs)
        for i in chain:
            own = [each for each in chunk if each.group == i]
            assert all(one.stop == other.start for one, other in pairwise(own))
    assert any((tiles, runs) == (32, 8) for _, tiles, runs in found)


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
def test_no_tile_reads_images_of_another_one(threads: int) -> None:
    """Memory is NaN before a step, and the chunks of each phase come in the wrong order."""
    program = network(32, 16, 64)
    run = runtime.Run(program, engine="reference")
    step, feeds = lowered_for(program, threads), rows(32, 16)
    assert len(step.phases.tiled_chains) > 5
    found: list[dict[str, np.ndarray]] = []
    for make in (CompiledStep.__call__, in_another_order):
        states = {name: array.copy() for name, array in run.states.arrays.items()}
        arena = aligned_bytes(step.memory.arena_bytes)
        arena.view("f4")[...] = np.nan
        compiled = bind_compiled(step, states, arena)
        for name, feed in fed_by(step).items():
            compiled.arrays[name][...] = feeds[feed]
        make(compiled)
        found.append(states)
    for name, array in found[0].items():
        assert array.tobytes() == found[1][name].tobytes(), name
        assert np.isfinite(array).all(), name


def fed_by(step: LoweredBlock) -> dict[str, str]:
    """Return the feed of each parameter of the block that has one."""
    return {p.tensor: p.feed for p in step.nodes.block.desc.parameters if p.WhichOneof("source") == "feed"}


def in_another_order(compiled: CompiledStep) -> None:
    """Make the step on one thread: of every phase the last chunk first, each to its end."""
    records: list[list[int]] = []
    for begin, count in compiled.driver.phases[: compiled.code.phase_count]:
        for place in range(begin + count - 1, begin - 1, -1):
            at = place
            records.append([*compiled.driver.chunks[at, :4], 0])
            while further := compiled.driver.chunks[at, 4]:
                at += further
                records.append([*compiled.driver.chunks[at, :4], 0])
    phases = np.array([(i, 1) for i in range(len(records))], np.int64)
    words = compiled.runtime_checks.words
    Driver(compiled.code.target, 1, phases, np.array(records, np.int64), words, compiled).drive(0, len(phases))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_overwritten_is_read_by_no_later_group(threads: int) -> None:
    step = lowered_for(network(32, 16, 64), threads)
    buffers = {buffer.name for buffer in step.memory.buffers}
    over = [name for name in step.memory.offsets if name not in buffers]
    assert len(over) > 5
    for name in over:
        maker = next(i for i, names in enumerate(step.memory.stored) if name in names)
        [nbytes] = {step.nodes.types[name].nbytes}
        shared = [
            x for x in buffers if step.memory.offsets.get(x) == step.memory.offsets[name] and x in step.nodes.types
        ]
        begin = step.phases.first[maker]
        for old in shared:
            readers = [i for i, group in enumerate(step.groups) if old in group.reads and i != maker]
            writer = next((i for i, names in enumerate(step.memory.stored) if old in names), None)
            dead = [i for i in readers if step.phases.last[i] < begin]
            lives = next(buffer for buffer in step.memory.buffers if buffer.name == old)
            if lives.start < begin < lives.stop:
                assert dead == readers, (name, old)
                assert writer is None or step.phases.last[writer] < begin
                assert step.nodes.types[old].nbytes == nbytes


def test_what_is_prepacked_is_not_overwritten() -> None:
    """A result has the shape of a value that predictions derive from states once; it is large, and read once."""
    program = Program("kept", seed=2)
    x = program.input("x", "float32", (256, 256))
    bias = ops.tanh(program.parameter("w", (256, 256), normal(0.0, 1.0)))
    program.minimize(ops.mean(ops.square(ops.relu(x + bias))), sgd(0.1))
    program.outputs(y=ops.relu(x + bias))
    x = np.random.default_rng(0).standard_normal((256, 256)).astype("f4")
    found = {}
    for engine in ("native", "reference"):
        run = runtime.Run(program.compile(), engine=engine)
        found[engine] = [run.step({"x": x + i}, entry="predict")["y"] for i in range(3)]
    for made, expected in zip(found["native"], found["reference"], strict=True):
        np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6)


def test_chains_of_images_are_shown() -> None:
    lines = "\n".join(explained(lowered_for(network(32, 16, 64), 2)))
    assert " in 8 chunks with those of " in lines
