"""Former names of the public interface: each ends in one sentence that says the new one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from subjects.small_programs import linear

import prograd
from prograd import Program
from prograd_proto.renamed import RENAMED

FUNCTIONS = {
    "Program.open": (lambda: Program.open("p.pb"), "Program.open is now Program.load"),
    "Program.run": (lambda: linear().run(epochs=3), "Program.run is now Program.training"),
    "Run.load_state": (
        lambda: prograd.Run(linear().compile(batch=4)).load_state("s.safetensors"),
        "Run.load_state is now Run.load",
    ),
}


def test_all_former_functions_are_tried():
    assert set(FUNCTIONS) == set(RENAMED)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_former_function_says_the_new_one(name: str):
    act, sentence = FUNCTIONS[name]
    assert said(AttributeError, act) == sentence
    owner, attribute = name.split(".")
    assert said(AttributeError, lambda: getattr(getattr(prograd, owner), attribute)) == sentence
    assert attribute not in dir(getattr(prograd, owner))


@pytest.mark.parametrize("name", RENAMED)
def test_what_is_said_to_be_new_is_there(name: str):
    owner, attribute = RENAMED[name].split(".")
    assert callable(getattr(getattr(prograd, owner), attribute))


def test_a_name_that_never_was_is_no_former_one():
    assert said(AttributeError, lambda: Program.nothing) == "type object 'Program' has no attribute 'nothing'"


def said(error: type[Exception], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)
