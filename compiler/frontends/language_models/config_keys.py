"""The keys of a `config.json`: read with their ranges, and refused by name if nobody asked for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from compiler.errors import CompileError, compile_errors
from runtime.language.model import read_file

MOST_BYTES: Final = 1 << 24
"""Upper bound on a file of JSON, 16 MiB."""

MOST: Final = 1 << 24
"""Upper bound on a size that a config states."""

MOST_LAYERS: Final = 512
"""Upper bound on the number of layers."""


ACTIVATIONS: Final = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file of JSON; raise CompileError if it cannot be read or is not an object."""
    with compile_errors():
        raw = read_file(path, most=MOST_BYTES)
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CompileError(f"{path}: the file is no JSON: {str(error)[:100]}") from None
    if not isinstance(given, dict):
        raise CompileError(f"{path}: the file has no JSON object")
    return given


def stops_of(given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the codes that end a text, by the keys of a config."""
    found = given.get("eos_token_id")
    return tuple(code for code in (found if isinstance(found, list) else [found]) if type(code) is int)


IGNORED: Final = frozenset(
    """
    architectures attn_implementation auto_map bos_token_id cache_implementation chunk_size_feed_forward dtype
    eos_token_id gradient_checkpointing id2label initializer_range is_llama_config label2id model_type n_ctx n_special
    name_or_path output_attentions output_hidden_states pad_token_id predict_special_tokens problem_type return_dict
    summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj task_specific_params
    tokenizer_class torch_dtype torchscript transformers.js_config transformers_version unk_token_id use_cache
    """.split()  # noqa: SIM905 - a table to be read
)
"""Keys that change no number of training or of a text."""

NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "add_cross_attention": (False,),
    "is_decoder": (False, True),
    "is_encoder_decoder": (False,),
    "pretraining_tp": (1,),
    "rope_interleaved": (False,),
    "reorder_and_upcast_attn": (False,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "scale_attn_weights": (True,),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "cross_attention_hidden_size": (None,),
    "use_bidirectional_attention": (False, None),
}
"""Keys with the only values of them that the builder knows."""

DROPOUTS: Final = frozenset(("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout"))
"""Keys of dropouts, which tuning leaves out, as adapters and few rows want."""


class Config:
    """The keys of a config; keys that nobody reads are refused at the end."""

    def __init__(self, path: Path, given: Mapping[str, Any]) -> None:
        self.path, self.given = path, given
        self._known = {*IGNORED, *DROPOUTS}

    def size(self, key: str, default: int | None = None, *, least: int = 1, most: int = MOST) -> int:
        """Return a whole number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise CompileError(f"{self.path}: {key} is {value!r}, not a whole number from {least} to {most}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a positive number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise CompileError(f"{self.path}: {key} is {value!r}, not a positive number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return True or False."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise CompileError(f"{self.path}: {key} is {value!r}, neither true nor false")
        return value

    def word(self, key: str, known: Mapping[str, Any], default: str | None = None) -> Any:
        """Return what a word stands for."""
        value = self._value(key, default)
        if not isinstance(value, str) or value not in known:
            raise CompileError(f"{self.path}: {key} is {value!r}; the builder knows {', '.join(known)}")
        return known[value]

    def has(self, key: str) -> bool:
        """Return True if a key is there and not null."""
        return self.given.get(key) is not None

    def stops(self) -> tuple[int, ...]:
        """Return the codes that end a text."""
        return stops_of(self.given)

    def know(self, *keys: str) -> None:
        """Count keys as understood."""
        self._known.update(keys)

    def require_all_known(self) -> None:
        """Raise CompileError for a key that nobody asked for, or with a value that the builder does not know."""
        for key, value in self.given.items():
            if key in NEUTRAL and value not in NEUTRAL[key]:
                raise CompileError(f"{self.path}: {key} is {value!r}, which the builder does not know")
            if key not in self._known and key not in NEUTRAL and value is not None and key[:1] != "_":
                raise CompileError(
                    f"{self.path}: the builder of {self.given['model_type']} does not know the key {key}, which may "
                    "change results; compiler import torch takes any module"
                )

    def _value(self, key: str, default: Any) -> Any:
        self._known.add(key)
        value = self.given.get(key)
        if value is None and default is None:
            raise CompileError(f"{self.path}: there is no {key}")
        return default if value is None else value
