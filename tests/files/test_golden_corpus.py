"""tests/golden/compiled: programs as earlier versions compiled them, which every later one loads, checks and runs.

Files are only ever added, with the format version first in their names; none is written anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from subjects.steps import Oracle, Stepper, bound_block, same_bits

from prograd_proto import type_of
from prograd_proto.files import load
from prograd_proto.text import from_text, to_text
from runtime.check import check_program
from runtime.engines.reference.target import REFERENCE

CORPUS = sorted((Path(__file__).parents[1] / "golden" / "compiled").glob("*.pb"))
each_file = pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)


def test_the_corpus_is_there():
    assert {path.name.split("_")[0] for path in CORPUS} >= {"v1"}


@each_file
def test_an_old_program_is_accepted_and_keeps_its_text(path: Path):
    program = load(path)
    check_program(program, REFERENCE)
    assert from_text(to_text(program)) == program


@each_file
def test_an_old_program_trains_by_its_plan_to_the_bits_of_its_ops(path: Path):
    program = load(path)
    stepper = Stepper(program, plan=program.entries[0].bindings[0].plan)
    oracle = Oracle(program, stepper.snapshot())
    block = bound_block(program)
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    feeds = [(p.feed, types[p.tensor]) for p in block.parameters if p.WhichOneof("source") == "feed"]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = {
            name: (3 * rng.random(type.static_shape)).astype(type.dtype)  # below the number of every file's classes
            for name, type in feeds
        }
        same_bits(stepper.step(**rows), oracle.step(**rows))
        same_bits(stepper.snapshot(), oracle.states)
