"""Differences of uint8 with numbers, which would wrap around: an image minus 128 is a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

from prograd import Program, Run, ops

IMAGES = np.arange(32 * 64, dtype=np.uint32).astype(np.uint8).reshape(32, 64)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: x - 128, "x - 128"),
        (lambda x: 255 - x, "255 - x"),
        (lambda x: np.uint8(255) - x, "255 - x"),
    ],
)
def test_a_number_is_not_subtracted_from_bytes(make: Callable[[Any], Any], text: str):
    x = Program().input("x", "uint8", ("batch", 64))
    assert told(TypeError, lambda: make(x)) == (
        f"{text}: %x: uint8[batch, 64] has no values below 0, which wrap around to 255; "
        f'write ops.cast(x, dtype="float32") for x, or call ops.sub if that is meant'
    )


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_what_the_sentence_says_is_computed(engine: str):
    program = Program()
    x = program.input("x", "uint8", ("batch", 64))
    program.outputs(centred=ops.cast(x, dtype="float32") - 128, wrapped=ops.sub(x, 128), apart=x - x[:, :1])
    run = Run(program.compile(batch=32), engine=engine)
    found = run.predict(IMAGES)
    np.testing.assert_array_equal(found["centred"], IMAGES.astype(np.float32) - 128)
    np.testing.assert_array_equal(found["wrapped"], IMAGES - np.uint8(128))
    np.testing.assert_array_equal(found["apart"], IMAGES - IMAGES[:, :1])
