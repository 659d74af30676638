"""Bits follow from shapes and the instruction set: the sizes of a CPU's caches change none, so machines agree."""

from contextlib import closing
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from native.bound import lowered
from native.building import SETS
from native.made import Made
from subjects.families import FAMILIES, ROWS, family_feeds, family_program
from subjects.steps import bound_block

from compiler import Compiled
from registry import OPS
from runtime.codegen.explain import code_of
from runtime.codegen.machine import Target, target
from runtime.engines.native import engine
from runtime.engines.native.cpu import caches
from runtime.runs.run import Run

CACHES = [(16, 256), (32, 512), (32, 1024), (48, 2048)]
"""KiB of the first-level and the second-level cache of four CPUs."""


def machine(folder: Path, instructions: str, kib: tuple[int, int]) -> Target:
    """Return the target of a Linux machine with these caches."""
    for level, size in enumerate(kib, start=1):
        index = folder / f"{kib}" / f"index{level}"
        index.mkdir(parents=True, exist_ok=True)
        for name, text in (("level", f"{level}"), ("type", "Data"), ("size", f"{size}K")):
            (index / name).write_text(f"{text}\n")
    return replace(target(instructions), **caches(folder / f"{kib}"))


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "instructions"), [*zip(FAMILIES, cycle(SETS), strict=False)])
def test_two_training_steps_have_the_same_bits_on_machines_with_other_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, instructions: str
):
    compiled = family_program(family).compile(batch=ROWS)
    feeds = family_feeds(compiled)
    found: dict[str, list[tuple[int, int]]] = {}
    seen: set[object] = set()
    for kib in CACHES:
        made = machine(tmp_path, instructions, kib)
        work = work_of(compiled, made)
        if work in seen:  # the same code with the same work items gives the same bits
            continue
        seen.add(work)
        monkeypatch.setattr(engine, "this_machine", lambda _, made=made: made)
        with closing(Run(compiled.desc, engine="native", threads=2)) as run:
            losses = [run.step(feeds)["loss"] for _ in range(2)]
            assert np.isfinite(losses).all()
            found.setdefault(run.state_sha256, []).append(kib)
    assert len(found) == 1, found


def work_of(compiled: Compiled, made: Target) -> object:
    """Return the code of a training step for a target, and the work items of its kernel steps."""
    step = lowered(bound_block(compiled.desc), (), made, 2)
    return code_of(step), tuple((stage.first, stage.work_items) for stages in step.steps for stage in stages.steps)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("instructions", SETS)
@pytest.mark.parametrize(
    ("rows", "size", "deep", "wide", "window"),
    [(4, 2, 128, 64, 1), (1, 4, 96, 32, 3), (2, 4, 16, 96, 3), (2, 8, 96, 32, 3), (2, 4, 512, 512, 3)],
)
def test_a_convolution_of_few_pixels_has_the_same_bits_on_machines_with_other_caches(
    tmp_path: Path, instructions: str, rows: int, size: int, deep: int, wide: int, window: int
):
    rng = np.random.default_rng(0)
    shapes = (rows, size, size, deep), (window, window, deep, wide)
    operands = [rng.normal(size=shape).astype("f4") for shape in shapes]
    pad = window // 2
    made = Made(lambda x, w: OPS["conv2d"](x, w, padding=(pad, pad)), operands)
    targets = [machine(tmp_path, instructions, kib) for kib in CACHES]
    first, *others = [made.native(each)[0].tobytes() for each in targets]
    assert others == [first] * len(others)
    assert len({tuple(made.groups(each)) for each in targets}) == 1
