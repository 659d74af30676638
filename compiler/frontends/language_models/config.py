"""The architecture that a folder's `config.json` describes; what is not understood is refused by name."""

# pyright: basic
# JSON has no types here.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from compiler.errors import CompileError
from prograd_proto.regular_files import open_regular

Norm = Literal["rms", "rms_from_1", "layer"]
Activation = Literal["silu", "gelu", "gelu_tanh"]

MOST_BYTES: Final = 1 << 24
"""Upper bound on a file of JSON, 16 MiB."""

MOST: Final = 1 << 24
"""Upper bound on a size that a config states."""

MOST_LAYERS: Final = 512
"""Upper bound on the number of layers."""


@dataclass(frozen=True)
class Architecture:
    """A decoder of text: what differs between GPT-2, Llama, Mistral, Qwen2, Qwen3 and Gemma 3.

    Attributes:
        family: the word `model_type` of the config.
        vocabulary: the number of codes.
        width: the size of a position between layers.
        layers: the number of layers.
        heads: the number of heads of queries.
        groups: the number of heads of keys and values, which divides `heads`.
        head_size: the size of a head.
        hidden: the width inside the feed-forward part.
        positions: the largest number of positions that the model was made for.
        epsilon: the term of the normalisations.
        norm: "rms_from_1" multiplies by 1 + the weight.
        activation: the function inside the feed-forward part.
        rotary: the base of rotary positions; 0 for a table of trained positions.
        local_rotary: that of layers with a window.
        windows: for each layer, the number of positions that a query sees; 0 for all before it.
        bias: True if queries, keys and values have biases.
        output_bias: True if the output of attention has one.
        hidden_bias: True if the feed-forward part has them.
        norms_of_heads: True if queries and keys are normalised.
        norms_behind: True if the results of attention and of the feed-forward part are normalised, too.
        tied: True if the head is the table of codes.
        scale: the factor of the scores of attention.
        embedding_scale: the factor of the rows of the table of codes.
        stops: codes that end a text, as the config names them.
    """

    family: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    groups: int
    head_size: int
    hidden: int
    positions: int
    epsilon: float
    norm: Norm
    activation: Activation
    rotary: float
    local_rotary: float
    windows: tuple[int, ...]
    bias: bool
    output_bias: bool
    hidden_bias: bool
    norms_of_heads: bool
    norms_behind: bool
    tied: bool
    scale: float
    embedding_scale: float
    stops: tuple[int, ...]


def architecture_of(folder: Path) -> Architecture:
    """Return the architecture of a folder; raise CompileError for a missing, damaged or unknown config."""
    path = folder / "config.json"
    if folder.is_dir() and not path.is_file():
        raise CompileError(f"{folder}: the folder has no config.json, so it is no model of Hugging Face's form")
    return architecture_in(path, read_json(path))


def architecture_in(path: Path, given: Mapping[str, Any]) -> Architecture:
    """Return the architecture that the keys of a config describe; `path` is the file for messages."""
    family = given.get("model_type")
    if not isinstance(family, str) or family not in _FAMILIES:
        known = ", ".join(_FAMILIES)
        raise CompileError(f"{path}: model_type is {family!r}; there is a builder for {known}")
    config = _Config(path, given)
    made = _FAMILIES[family](config)
    config.require_all_known()
    _require_consistent(path, made)
    return made


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file of JSON; raise CompileError if it cannot be read or is none."""
    try:
        with open_regular(path) as stream:
            raw = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise CompileError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if len(raw) > MOST_BYTES:
        raise CompileError(f"{path}: the file has more than {MOST_BYTES} bytes, too many for such a file")
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CompileError(f"{path}: the file is no JSON: {str(error)[:100]}") from None
    if not isinstance(given, dict):
        raise CompileError(f"{path}: the file has no JSON object")
    return given


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
"""Keys that must have one of these values, of which the builder knows no other."""

DROPOUTS: Final = frozenset(("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout"))
"""Keys of dropouts, which tuning leaves out, as adapters and few rows want."""


class _Config:
    """The keys of a config: what is taken is known, and the rest is refused."""

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
        found = self.given.get("eos_token_id")
        codes = found if isinstance(found, list) else [found]
        return tuple(code for code in codes if isinstance(code, int) and not isinstance(code, bool))

    def rotary(self, default: float) -> float:
        """Return the base of rotary positions; raise CompileError for a scaling of them."""
        scaling = self._value("rope_scaling", 0) or {}
        inside = self._value("rope_parameters", 0) or {}
        both = {**(scaling if isinstance(scaling, dict) else {}), **(inside if isinstance(inside, dict) else {})}
        kind = both.get("rope_type", both.get("type", "default"))
        if kind not in ("default", None):
            raise CompileError(
                f"{self.path}: rope_scaling is of the type {kind!r}; the builder knows positions without scaling"
            )
        base = both.get("rope_theta", self._value("rope_theta", default))
        if isinstance(base, bool) or not isinstance(base, int | float) or not 1 < base < 1e30:
            raise CompileError(f"{self.path}: rope_theta is {base!r}, not a number above 1")
        if self.number("partial_rotary_factor", 1.0) != 1 or both.get("partial_rotary_factor", 1.0) != 1:
            raise CompileError(f"{self.path}: partial_rotary_factor is not 1; the builder rotates whole heads")
        return float(base)

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


_ACTIVATIONS: Final = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def _llama(config: _Config, **more: Any) -> Architecture:
    """Return what Llama's kin have in common; `more` is what a family has of its own."""
    width, heads = config.size("hidden_size"), config.size("num_attention_heads", most=4096)
    head_size = config.size("head_dim", max(width // heads, 1))
    layers = config.size("num_hidden_layers", most=MOST_LAYERS)
    own: dict[str, Any] = {
        "family": config.given["model_type"],
        "vocabulary": config.size("vocab_size"),
        "width": width,
        "layers": layers,
        "heads": heads,
        "groups": config.size("num_key_value_heads", heads, most=4096),
        "head_size": head_size,
        "hidden": config.size("intermediate_size"),
        "positions": config.size("max_position_embeddings", 2048),
        "epsilon": config.number("rms_norm_eps", 1e-6),
        "norm": "rms",
        "rotary": 0.0,
        "local_rotary": 0.0,
        "windows": (0,) * layers,
        "bias": False,
        "output_bias": False,
        "hidden_bias": False,
        "norms_of_heads": False,
        "norms_behind": False,
        "tied": config.flag("tie_word_embeddings", False),
        "scale": head_size**-0.5,
        "embedding_scale": 1.0,
        "stops": config.stops(),
    }
    if "activation" not in more:
        own["activation"] = config.word("hidden_act", _ACTIVATIONS, "silu")
    return Architecture(**(own | more))


def _plain_llama(config: _Config) -> Architecture:
    bias = config.flag("attention_bias", False)
    return _llama(
        config,
        rotary=config.rotary(10000.0),
        bias=bias,
        output_bias=bias,
        hidden_bias=config.flag("mlp_bias", False),
    )


def _mistral(config: _Config) -> Architecture:
    made = _llama(config, rotary=config.rotary(10000.0))
    return _windowed(config, made, [True] * made.layers)


def _qwen2(config: _Config) -> Architecture:
    made = _llama(config, rotary=config.rotary(10000.0), bias=True)
    return _windowed_qwen(config, made)


def _qwen3(config: _Config) -> Architecture:
    bias = config.flag("attention_bias", False)
    made = _llama(config, rotary=config.rotary(10000.0), bias=bias, output_bias=bias, norms_of_heads=True)
    return _windowed_qwen(config, made)


def _windowed_qwen(config: _Config, made: Architecture) -> Architecture:
    used = config.flag("use_sliding_window", False)
    first = config.size("max_window_layers", made.layers, least=0)
    return _windowed(config, made, [used and i >= first for i in range(made.layers)])


def _windowed(config: _Config, made: Architecture, default: list[bool]) -> Architecture:
    """Return the architecture with the windows of its layers."""
    config.know("sliding_window", "layer_types")
    window = config.size("sliding_window", most=MOST) if config.has("sliding_window") else 0
    kinds = config.given.get("layer_types")
    local = default
    if kinds is not None:
        words = {"full_attention": False, "sliding_attention": True}
        if not isinstance(kinds, list) or len(kinds) != made.layers or any(kind not in words for kind in kinds):
            raise CompileError(
                f"{config.path}: layer_types does not have full_attention or sliding_attention for each layer"
            )
        local = [words[kind] for kind in kinds]
    return replace(made, windows=tuple(window if here else 0 for here in local))


def _gemma3(config: _Config) -> Architecture:
    given = dict(config.given)
    bases = given.get("rope_parameters")
    if isinstance(bases, dict) and "full_attention" in bases:  # as newer versions of transformers write it
        parts = {key: bases.get(key) for key in ("full_attention", "sliding_attention")}
        plain = _Config(config.path, {"rope_parameters": parts["full_attention"], "model_type": "gemma3_text"})
        local = _Config(config.path, {"rope_parameters": parts["sliding_attention"], "model_type": "gemma3_text"})
        config.know("rope_parameters")
        rotary, local_rotary = plain.rotary(1e6), local.rotary(1e4)
    else:
        rotary, local_rotary = config.rotary(1e6), config.number("rope_local_base_freq", 1e4)
    config.know("rope_local_base_freq", "rope_theta", "rope_scaling")
    bias = config.flag("attention_bias", False)
    width = config.size("hidden_size")
    made = _llama(
        config,
        rotary=rotary,
        local_rotary=local_rotary,
        norm="rms_from_1",
        activation=config.word("hidden_activation", _ACTIVATIONS, "gelu_pytorch_tanh"),
        norms_of_heads=True,
        norms_behind=True,
        bias=bias,
        output_bias=bias,
        tied=config.flag("tie_word_embeddings", True),
        scale=config.number("query_pre_attn_scalar", 256.0) ** -0.5,
        embedding_scale=width**0.5,
    )
    period = config.size("sliding_window_pattern", config.given.get("_sliding_window_pattern") or 6)
    config.know("_sliding_window_pattern", "hidden_act")
    return _windowed(config, made, [bool((i + 1) % period) for i in range(made.layers)])


def _gpt2(config: _Config) -> Architecture:
    width, heads = config.size("n_embd"), config.size("n_head", most=4096)
    layers = config.size("n_layer", most=MOST_LAYERS)
    return Architecture(
        family="gpt2",
        vocabulary=config.size("vocab_size"),
        width=width,
        layers=layers,
        heads=heads,
        groups=heads,
        head_size=max(width // heads, 1),
        hidden=config.size("n_inner", 4 * width),
        positions=config.size("n_positions", 1024),
        epsilon=config.number("layer_norm_epsilon", 1e-5),
        norm="layer",
        activation=config.word("activation_function", _ACTIVATIONS, "gelu_new"),
        rotary=0.0,
        local_rotary=0.0,
        windows=(0,) * layers,
        bias=True,
        output_bias=True,
        hidden_bias=True,
        norms_of_heads=False,
        norms_behind=False,
        tied=config.flag("tie_word_embeddings", True),
        scale=max(width // heads, 1) ** -0.5,
        embedding_scale=1.0,
        stops=config.stops(),
    )


_FAMILIES: Final[Mapping[str, Callable[[_Config], Architecture]]] = {
    "gpt2": _gpt2,
    "llama": _plain_llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma3_text": _gemma3,
}
"""The builder of each `model_type`."""

FAMILIES: Final = tuple(_FAMILIES)
"""The families in the order of their table."""


def _require_consistent(path: Path, made: Architecture) -> None:
    """Raise CompileError for sizes that do not fit each other."""
    if made.heads % made.groups:
        raise CompileError(f"{path}: {made.groups} heads of keys do not divide {made.heads} heads of queries")
    if made.rotary and made.head_size % 2:
        raise CompileError(f"{path}: heads of {made.head_size} numbers have no pairs to rotate")
    if made.family == "gpt2" and made.width % made.heads:
        raise CompileError(f"{path}: {made.heads} heads do not divide {made.width} channels")
