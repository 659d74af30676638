"""tests/golden/operators: every operator at every version gives what it gave when the file was written."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from golden_operators import CORPUS, listed, wanted

import runtime
from prograd_proto.files import load, parse, read
from prograd_proto.text import from_text, to_text

FILES = sorted(CORPUS.glob("*.pb"))
ENTRIES = [(path, entry.name) for path in FILES for entry in parse(read(str(path))).entries]

LAST_BITS = {np.dtype("float64"): 1e-9, np.dtype("float32"): 1e-4, np.dtype("float16"): 1e-2}
"""Tolerance for another CPU, NumPy or BLAS: some ops add many products, or subtract nearly equal numbers."""


@cache
def loaded(path: Path) -> runtime.Run:
    return runtime.load(path, spill=gettempdir())  # two operators wait in a file, of which nothing is left


def test_every_operator_is_there_at_every_version_it_has_had():
    missing = sorted(wanted() - listed())
    assert missing == [], "`python tests/golden_operators.py NAME` adds a file of them; no file is ever written anew"


@pytest.mark.parametrize(("path", "entry"), ENTRIES, ids=lambda value: getattr(value, "stem", value))
def test_an_operator_of_whatever_version_gives_what_it_gave(path: Path, entry: str):
    given = loaded(path).step(entry=entry)
    for i in range(len(given) // 2):
        found, expected = given[f"found{i}"], given[f"expected{i}"]
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        limit = LAST_BITS.get(found.dtype, 0.0)
        np.testing.assert_allclose(found, expected, rtol=limit, atol=limit, equal_nan=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_corpus_keeps_its_text_and_is_small(path: Path):
    program = load(path)
    assert from_text(to_text(program)) == program
    assert sum(file.stat().st_size for file in FILES) < 1 << 20
