"""Import of an encoder with a head for classes from a folder of Hugging Face's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.language_models.encoder_config import CLASSES, HEADS, Encoder, unnamed
from compiler.frontends.language_models.encoder_network import EncoderNetwork
from compiler.frontends.language_models.stored_states import StoredStates
from compiler.frontends.language_models.weights import Weights
from compiler.train.metrics import accuracy
from registry import ops
from runtime.language.model import ENCODER_KEY


def add_encoder(
    program: Program,
    made: Encoder,
    weights: Weights,
    states: StoredStates,
    *,
    length: int,
    classes: int | Sequence[str] | None,
    about: dict[str, Any],
) -> None:
    """Add the layers of an encoder, its loss, and the entries `evaluate` and `predict`.

    `classes` are the names or the number of the classes of a row; by default those of the folder. The head of the
    folder is kept if it has the same classes, or as many classes without names. `about` is the description of the
    folder in the program. Raises CompileError for a size or a weight that does not fit.
    """
    if not 2 <= length <= made.positions:
        raise CompileError(f"from_lm: length={length} is not from 2 to {made.positions}, as the model has positions")
    names = made.classes if classes is None else names_of(classes)
    may_be_same = len(names) == len(made.classes) and unnamed(len(names)) in (made.classes, names)
    is_same = names == made.classes or may_be_same
    network = EncoderNetwork(program, replace(made, classes=names), weights, states, new_classes=not is_same)
    codes = program.input("codes", "int32", ("batch", length))
    types = program.input("types", "int32", ("batch", length)) if made.types > 1 else None
    lengths = program.input("lengths", "int32", ("batch",))
    label = program.input("label", "int64", ("batch",))
    scores = program.block.named(ops.identity(network.scores(codes, types, lengths)), "logits")
    network.require_all_read()
    loss = program.block.named(ops.identity(ops.softmax_cross_entropy(scores, label)), "loss")
    program.entry("evaluate", over="mean", loss=loss, accuracy=accuracy(scores, label))
    program.outputs(probabilities=ops.softmax(scores))
    told = {
        "architectures": [CLASSES[made.family]],
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        "problem_type": "single_label_classification",
    }
    about = {**about, "classes": names, "head": HEADS[made.kind], "config": {**about.get("config", {}), **told}}
    program.texts_of_model[ENCODER_KEY] = json.dumps(about, sort_keys=True, separators=(",", ":"))


def head_of(program: Program) -> list[str]:
    """Return the patterns of the weights of an encoder's head, which every training trains; none for other models."""
    text = program.texts_of_model.get(ENCODER_KEY)
    return [] if text is None else list(json.loads(text)["head"])


def names_of(classes: int | Sequence[str]) -> tuple[str, ...]:
    """Return the names of classes, also if only their number is given; raise CompileError for anything else."""
    if isinstance(classes, int):
        if not 1 < classes <= 1 << 16:
            raise CompileError(f"from_lm: classes={classes} is not from 2 to {1 << 16}")
        return unnamed(classes)
    names = tuple(classes)
    if len(names) < 2 or len({*names}) < len(names) or not all(names):
        raise CompileError(f"from_lm: classes={list(names)} are not two different names or more")
    return names


def description_of(program: Any) -> dict[str, Any] | None:
    """Return the description of an encoder in its program; None if it has none, or a damaged one."""
    text = next((each.text for each in program.model if each.key == ENCODER_KEY), None)
    try:
        found = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    needed = {"folder": str, "family": str, "classes": list, "head": list, "config": dict, "files": dict}
    is_whole = isinstance(found, dict) and all(isinstance(found.get(key), kind) for key, kind in needed.items())
    return found if is_whole else None
