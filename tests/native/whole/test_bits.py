"""Native bits follow from shapes, attributes and instruction set: memory plans, fetches and `--check-nan` change none.

Each family of operators runs in one way here, and families that once had other bits in more. The whole table takes
minutes: `python tests/native/every_way.py`. Its part for caches is `test_cache_sizes.py`.
"""

from functools import cache
from itertools import islice

import pytest
from subjects.families import FAMILIES, ROWS, family_feeds, family_program
from subjects.ways import WAYS, Results, Subject, steps_of

ROTATION = ("budgets", "check_nan", "fetch_all", "passes", "moves_to_a_file", "threads", "fetch_some")
"""Ways, one for each family."""

MORE = [
    ("a bidirectional LSTM of odd sizes", "budgets"),
    ("a bidirectional LSTM of odd sizes", "fetch_all"),
    ("a bidirectional GRU of odd sizes", "moves_to_a_file"),
    ("an LSTM", "check_nan"),
    ("softmax", "check_nan"),
    ("norms", "check_nan"),
    ("variances", "check_nan"),
    ("reductions of many axes", "passes"),
    ("reductions of many axes", "fetch_some"),
    ("products of transposed operands", "fetch_all"),
    ("products of transposed operands", "moves_to_a_file"),
    ("products of slices", "moves_to_a_file"),
    ("products of slices", "fetch_all"),
]

CASES = list(dict.fromkeys([*((family, ROTATION[i % len(ROTATION)]) for i, family in enumerate(FAMILIES)), *MORE]))

TRIED = 2
"""Number of results of a way that a test compares; the command compares all."""


@cache
def plain(family: str) -> tuple[Subject, Results]:
    subject = Subject(family_program(family), {"batch": ROWS}, family_feeds)
    return subject, steps_of(subject.compiled, subject.feeds)


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("family", "way"), CASES)
def test_a_family_has_the_bits_of_its_plain_run(family: str, way: str):
    subject, expected = plain(family)
    for label, results in islice(WAYS[way](subject), TRIED):
        assert [name for name in expected if results[name] != expected[name]] == [], label
