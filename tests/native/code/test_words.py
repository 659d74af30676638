"""Words that compiled code makes outside of steps are those that NumPy makes."""

import numpy as np
import pytest
from native.building import every_target
from native.guarded import guarded

from runtime import philox
from runtime.engines.native.driver import driver_code
from runtime.engines.native.random_bits import CompiledRandomBits
from runtime.philox import (
    BLOCKS_AT_A_TIME,
    WORK_ROWS,
    fill_random_bits,
    permutation,
    random_bits_by_numpy,
    use_random_bits_by,
)

NUMBERS = [(-(2**63), 0, 2**40 + 3, 0), (7, 2**32 - 1, 0, 2**32 - 5), (2**63 - 1, 5, 2**62, 11)]


def by_numpy(blocks, seed, stream, step, first):
    out, work = np.empty(4 * blocks, np.uint32), np.empty((WORK_ROWS, blocks), np.uint64)
    random_bits_by_numpy(out, work, seed=seed, stream=stream, step=step, first=first)
    return out


@every_target
@pytest.mark.parametrize("numbers", NUMBERS)
def test_any_number_of_blocks_is_made(target, numbers):
    function = driver_code(target).function("words", 6)
    for blocks in (*range(1, 20), BLOCKS_AT_A_TIME):
        out = guarded(np.zeros(4 * blocks, np.uint32))
        function(out.ctypes.data, blocks, *numbers)
        np.testing.assert_array_equal(out, by_numpy(blocks, *numbers))


@every_target
def test_words_are_drawn_by_compiled_code_for_any_caller(target, monkeypatch):
    monkeypatch.setattr(philox, "_faster", [])
    use_random_bits_by(CompiledRandomBits(target))
    [words] = philox._faster
    for size in (4, 4096):
        out = np.empty(size, np.uint32)
        assert words(out, 1, 2, 3, 4)
        np.testing.assert_array_equal(out, by_numpy(out.size // 4, 1, 2, 3, 4))
        drawn = np.empty_like(out)
        fill_random_bits(drawn, np.empty((0,), np.uint64), seed=1, stream=2, step=3, first=4)  # which needs no scratch
        np.testing.assert_array_equal(drawn, out)
    order = permutation(1, 2, 10_000)
    monkeypatch.setattr(philox, "_faster", [])
    np.testing.assert_array_equal(order, permutation(1, 2, 10_000))
