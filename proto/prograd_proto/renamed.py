"""Former names of the public interface, each with the name that replaced it."""

from __future__ import annotations

from typing import Final

TYPE_CHECKING = False  # the name that type checkers know; typing itself is slow to import

RENAMED: Final = {
    "Program.open": "Program.load",
    "Program.run": "Program.training",
    "Run.load_state": "Run.load",
}
"""The replacement of each former function."""

RENAMED_ARGUMENTS: Final = {
    "layers.batch_norm": {"decay": "decay_scale"},
    "layers.conv": {"bias_decay": "bias_decay_scale"},
    "layers.conv_norm": {"decay": "norm_decay_scale"},
    "layers.dense": {"bias_decay": "bias_decay_scale"},
    "layers.dropout": {"rate": "ratio"},
    "layers.embedding": {"numbers": "indices"},
    "layers.group_norm": {"decay": "decay_scale"},
    "layers.gru": {"rate": "dropout"},
    "layers.layer_norm": {"decay": "decay_scale"},
    "layers.lstm": {"rate": "dropout"},
    "layers.residual": {"rate": "dropout"},
    "layers.transformer_block": {"rate": "dropout"},
    "ops.all": {"axes": "axis"},
    "ops.alpha_dropout": {"rate": "ratio"},
    "ops.any": {"axes": "axis"},
    "ops.diagonal": {"axes": "axis"},
    "ops.dropout": {"rate": "ratio"},
    "ops.feature_dropout": {"rate": "ratio"},
    "ops.flip": {"axes": "axis"},
    "ops.gru": {"rate": "dropout"},
    "ops.logsumexp": {"axes": "axis"},
    "ops.lstm": {"rate": "dropout"},
    "ops.max": {"axes": "axis"},
    "ops.mean": {"axes": "axis"},
    "ops.min": {"axes": "axis"},
    "ops.norm": {"axes": "axis"},
    "ops.prod": {"axes": "axis"},
    "ops.resize": {"axes": "axis"},
    "ops.rnn": {"rate": "dropout"},
    "ops.roll": {"axes": "axis"},
    "ops.slice": {"axes": "axis"},
    "ops.squeeze": {"axes": "axis"},
    "ops.standard_deviation": {"axes": "axis"},
    "ops.sum": {"axes": "axis"},
    "ops.transpose": {"axes": "axis"},
    "ops.unslice": {"axes": "axis"},
    "ops.unsqueeze": {"axes": "axis"},
    "ops.variance": {"axes": "axis"},
}
"""By function, the replacement of each former argument."""


def renamed(name: str) -> str:
    """Return a sentence that says the replacement of a former function; "" for any other name."""
    return f"{name} is now {RENAMED[name]}" if name in RENAMED else ""


def renamed_argument(function: str, name: str) -> str:
    """Return a sentence that says the replacement of a former argument; "" for any other name."""
    new = RENAMED_ARGUMENTS.get(function, {}).get(name)
    return f"{name} is now {new}" if new else ""


class Renaming(type):
    """The type of a class whose former attributes are refused by the class itself with their replacements."""

    if not TYPE_CHECKING:  # hidden from type checkers, which know the attributes

        def __getattr__(cls, name: str) -> object:
            sentence = renamed(f"{cls.__name__}.{name}")
            raise AttributeError(sentence or f"type object {cls.__name__!r} has no attribute {name!r}")
