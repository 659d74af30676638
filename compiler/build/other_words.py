"""Attributes and arguments that programs and compiled programs do not have, and their replacements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prograd_proto.spelling import closest_and_all, no_attribute

_STEPS: Final = ("step", "train", "evaluate", "predict", "state")
"""Attributes of a run."""

_OF_PROGRAM: Final = {
    "add": "layers.dense(x, 'hidden', 32), which gives the next tensor",
    "backward": "program.minimize(loss, adam()), which appends the gradients",
    "fit": "prograd.Run(program.compile(batch=32)).train()",
    "parameters": "program.states",
    **{name: f"prograd.Run(program.compile(batch=32)).{name}" for name in _STEPS if name != "state"},
}
_OF_COMPILED: Final = {
    "fit": "prograd.Run(compiled).train()",
    **{name: f"prograd.Run(compiled).{name}" for name in (*_STEPS, "load")},
}

_ARGUMENTS: Final = {
    "training": {
        "batch_size": "the batch is bound by compile(batch=32)",
        "metric": "here it is called keep_best",
        "monitor": "here it is called keep_best",
        "mode": "here it is called best",
        "num_epochs": "here it is called epochs",
        "patience": "here it is called stop_after",
        "restore_best_weights": "here it is called restore_best",
        "validation_data": "evaluate= names a split of program.data",
        "validation_split": "evaluate= names a split of program.data",
    },
    "data": {
        "batch_size": "the batch is bound by compile(batch=32)",
        "drop_last": "write remainder='drop' or remainder='partial'",
        "path": "here it is called file",
    },
}
"""Arguments of other libraries and their replacements, for each method of a program."""


def no_argument_of_program(method: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence for an argument that a method of Program lacks, with its name here or the closest one."""
    words = _ARGUMENTS.get(method, {}).get(name)
    return f"{method}: there is no argument {name!r}{f'; {words}' if words else closest_and_all(name, known)}"


def no_attribute_of_program(name: str, owner: type) -> AttributeError:
    """Return the error for an attribute that a Program lacks.

    For an attribute of compiled programs, it names `compile`.
    """
    if name == "beside":  # looked up by a run
        return AttributeError("a Program is compiled before it runs, as in prograd.Run(program.compile(batch=32))")
    if name in ("save", "plan", "sha256", "desc", "entries"):
        words = f"a Program has no {name!r}; a compiled one has, as in program.compile(batch=32).{name}"
        return AttributeError(words)
    return no_attribute("a Program", name, owner, _OF_PROGRAM)


def no_attribute_of_compiled(name: str, owner: type) -> AttributeError:
    """Return the error for an attribute that a compiled program lacks; a run has the computations."""
    return no_attribute("a compiled program", name, owner, _OF_COMPILED)
