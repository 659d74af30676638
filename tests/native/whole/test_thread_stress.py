"""Short steps on more threads than cores, in hard conditions: a short part of `python tests/thread_stress.py`."""

import sys

import pytest
from thread_stress import hash_of, stressed

STEPS = 200


@pytest.fixture(scope="module")
def wanted() -> str:
    return hash_of(1, STEPS)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals, and no fork")
@pytest.mark.parametrize(("condition", "threads"), [
    ("pauses", 3),
    ("one core", 4),
    ("signals", 2),
    ("stopped", 16),
    ("fork", 8),
])  # fmt: skip
def test_steps_do_not_hang_and_have_equal_bits(condition: str, threads: int, wanted: str):
    assert stressed(threads, STEPS, condition) == [wanted] * (2 if condition == "fork" else 1)


def test_a_hash_depends_on_the_number_of_steps(wanted: str):
    assert hash_of(2, STEPS) == wanted
    assert hash_of(2, STEPS - 1) != wanted
