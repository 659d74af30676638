"""Operators at large extents, a few of the campaign's; and whether its judge finds faults that were in kernels once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fuzz.large import judge
from fuzz.large.case import HALVES, Case, Operand
from fuzz.large.judge import Differs, Subject, Way

from compiler import ops
from runtime.codegen.kernels.matmul import loops
from runtime.engines.native import compiled
from runtime.engines.native.cpu import instruction_sets

HERE = instruction_sets()[0]


def product(m: int, k: int, n: int, precision: str = "float32") -> Subject:
    """Return a product of whole numbers."""
    operands = {"a": Operand((m, k), "half"), "b": Operand((k, n), "half")}
    case = Case("matmul", operands, lambda x: [ops.matmul(x["a"], x["b"])], HALVES, is_exact=True, has_gradients=False)
    return Subject(case, precision, True)


@pytest.mark.thorough
@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(48))
def test_operators_at_large_extents_have_exact_values_and_equal_bits(seed: int, tmp_path: Path):
    judge.tried(seed, tmp_path)


def test_a_step_too_many_in_the_last_block_of_a_depth_is_found(monkeypatch: pytest.MonkeyPatch):
    def tile(*given, has_whole_block: bool, **more):
        return right(*given, has_whole_block=True, **more)

    right, ways = loops.tile, [Way(HERE, 1)]
    monkeypatch.setattr(compiled, "find", lambda key: None)  # else the code that is right is found
    monkeypatch.setattr(compiled, "keep", lambda entry: None)
    judge.judged(product(20, 16129, 40), 0, ways)
    monkeypatch.setattr(loops, "tile", tile)
    with pytest.raises(Differs, match=r"^y0 is wrong by up to .* of .*, \d+ of 800 elements, from "):
        judge.judged(product(20, 16129, 40), 0, ways)


def test_bits_that_depend_on_the_way_are_found(monkeypatch: pytest.MonkeyPatch):
    def other(program, feeds, way):
        found = right(program, feeds, way)
        return {
            name: np.nextafter(array, np.float32(np.inf)) if way.threads == 2 else array
            for name, array in found.items()
        }

    right = judge.run_of
    subject = product(3, 40, 8)._replace(is_whole=False)
    judge.judged(subject, 0, [Way(HERE, 1), Way(HERE, 2)])
    monkeypatch.setattr(judge, "run_of", other)
    with pytest.raises(Differs, match=r"^y0 has other bits by Way\(.*threads=2.*\), in 24 of 24 elements, from "):
        judge.judged(subject, 0, [Way(HERE, 1), Way(HERE, 2)])
