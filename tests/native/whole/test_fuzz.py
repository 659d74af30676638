"""Random programs by both engines, a few of them; and whether who judges finds what is wrong and lets rounding pass."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import engines, networks
from fuzz.building import Building
from fuzz.generate import generated
from fuzz.native import HOW, verdict_of
from fuzz.recipe import Recipe

from compiler import Program, ops
from prograd_proto import program_pb2 as pb

CORPUS = sorted((Path(__file__).parents[2] / "fuzz/corpus/native").glob("*.json"))


@pytest.mark.parametrize("seed", [0, 3])
def test_random_programs_have_the_numbers_of_the_reference(seed: int):
    assert verdict_of(generated(seed, wide=True).building, seed).word in ("agreed", "skipped")


def test_a_random_network_has_the_numbers_of_the_reference():
    assert str(networks.judged(networks.drawn(20))).startswith("native network: numbers agreed")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_once_failed_does_no_more(path: Path):
    building = Building.of(Recipe.from_json(path.read_text(encoding="utf-8")))
    assert [str(verdict_of(building, 0, how)) for how in HOW[:1]] == ["native: numbers agreed"]


def total(scale: float) -> tuple[pb.ProgramDesc, dict[str, np.ndarray[Any, Any]]]:
    """A sum that cancels, of numbers of float32."""
    program = Program("total", seed=1)
    x = program.input("x", "float32", (64,))
    program.outputs(y=ops.sum(ops.exp(x) * scale) - ops.sum(ops.exp(x + 0.0) * scale * 0.999999))
    return program.compile().desc, {"x": np.linspace(-1, 1, 64).astype(np.float32)}


def test_numbers_that_cancel_may_differ_by_what_rounding_does_to_them():
    program, feeds = total(1e3)
    assert engines.judged(program, feeds, (1, 2), "").word == "agreed"


def test_wrong_numbers_and_bits_that_depend_on_threads_are_found(monkeypatch: pytest.MonkeyPatch):
    program, feeds = total(1e3)
    right = engines.stepped

    def wrong(*given: Any, **more: Any) -> engines.Results:
        found = right(*given, **more)
        if "native" in given and given[5] in bad:
            found[0]["y"] += 10.0
        return found

    monkeypatch.setattr(engines, "stepped", wrong)
    bad = (1, 2)
    found = engines.judged(program, feeds, (1, 2), "")
    assert (found.word, found.what) == ("differs", "predict, step 0: y")
    bad = (2,)
    assert engines.judged(program, feeds, (1, 2), "").detail == "1 and 2 threads"
