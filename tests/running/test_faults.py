"""A run is killed, and its system calls fail, at some of the places that `python tests/faults.py` goes through."""

import random
from collections.abc import Iterator

import pytest
from faults import Bench, cases, go_wrong, interrupted, kill


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.thorough
def test_a_run_that_is_killed_at_any_moment_goes_on_as_if_it_had_not_been(bench):
    draw = random.Random(3)
    assert sum(kill(bench, draw, 0.15) for _ in range(5)) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("resumed", [False, True], ids=["a new run", "a resumed run"])
def test_a_call_that_fails_or_is_never_ended_loses_nothing(bench, resumed):
    more = ["--resume"] if resumed else []
    names = bench.calls(*more, place=interrupted(bench) if resumed else None)
    wanted = {"open", "write", "fsync", "close", "replace", "unlink", "truncate" if resumed else "mkdir"}
    assert wanted <= set(names)
    some = list(cases(names, range(len(names))))[random.Random(7).randrange(60) :: 60]
    for case in some:
        go_wrong(bench, case, interrupted(bench) if resumed else None, *more)
