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
    "ops.gru": {"rate": "dropout"},
    "ops.lstm": {"rate": "dropout"},
    "ops.rnn": {"rate": "dropout"},
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
