"""The architecture that a folder's `config.json` describes; what is not understood is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from compiler.errors import CompileError
from compiler.frontends.language_models.config_keys import ACTIVATIONS, MOST, MOST_LAYERS, Config, read_json
from compiler.frontends.language_models.rotary import Rotary, rotary_of

WINDOW: Final = 4096
"""The window of layers that have one if the config does not say it, as transformers has it for all families."""

Norm = Literal["rms", "rms_from_1", "layer"]
Activation = Literal["silu", "gelu", "gelu_tanh"]


@dataclass(frozen=True)
class Architecture:
    """A decoder of text, by the properties in which GPT-2, Llama, Mistral, Qwen2, Qwen3 and Gemma 3 differ.

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
        rotary_factors: for each pair of a head, what its rotation is divided by; empty if all are 1.
        local_rotary: the base of layers with a window, whose rotations no factors divide; 0 for `rotary` as it is.
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
    windows: tuple[int, ...]
    tied: bool
    scale: float
    stops: tuple[int, ...]
    rotary: float = 0.0
    rotary_factors: tuple[float, ...] = ()
    local_rotary: float = 0.0
    bias: bool = False
    output_bias: bool = False
    hidden_bias: bool = False
    norms_of_heads: bool = False
    norms_behind: bool = False
    embedding_scale: float = 1.0


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
    config = Config(path, given)
    made = _FAMILIES[family](config)
    config.require_all_known()
    _require_consistent(path, made)
    return made


def _llama(config: Config, **more: Any) -> Architecture:
    """Return the architecture of a relative of Llama; `more` has the values in which a family differs."""
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
        "windows": (0,) * layers,
        "tied": config.flag("tie_word_embeddings", False),
        "scale": head_size**-0.5,
        "stops": config.stops(),
    }
    if "rotary" not in more:
        own["rotary"], own["rotary_factors"] = rotary_of(config, 10000.0, head_size)
    if "activation" not in more:
        own["activation"] = config.word("hidden_act", ACTIVATIONS, "silu")
    return Architecture(**(own | more))


def _plain_llama(config: Config) -> Architecture:
    bias = config.flag("attention_bias", False)
    return _llama(
        config,
        bias=bias,
        output_bias=bias,
        hidden_bias=config.flag("mlp_bias", False),
    )


def _mistral(config: Config) -> Architecture:
    made = _llama(config)
    return _windowed(config, made, [True] * made.layers)


def _qwen2(config: Config) -> Architecture:
    made = _llama(config, bias=True)
    return _windowed_qwen(config, made)


def _qwen3(config: Config) -> Architecture:
    bias = config.flag("attention_bias", False)
    made = _llama(config, bias=bias, output_bias=bias, norms_of_heads=True)
    return _windowed_qwen(config, made)


def _windowed_qwen(config: Config, made: Architecture) -> Architecture:
    used = config.flag("use_sliding_window", False)
    first = config.size("max_window_layers", 28, least=0)
    kinds = config.given.get("layer_types")
    if not used and isinstance(kinds, list) and "sliding_attention" in kinds:
        raise CompileError(
            f"{config.path}: layer_types has sliding_attention, and use_sliding_window is not true; state which holds"
        )
    return _windowed(config, made, [used and i >= first for i in range(made.layers)])


def _windowed(config: Config, made: Architecture, default: list[bool]) -> Architecture:
    """Return the architecture with the windows of its layers; null is no window, and a missing key is `WINDOW`."""
    config.know("sliding_window", "layer_types")
    is_null = "sliding_window" in config.given and not config.has("sliding_window")
    window = 0 if is_null else config.size("sliding_window", WINDOW, most=MOST)
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


def _gemma3(config: Config) -> Architecture:
    size, parts = config.size("head_dim", 256), config.given.get("rope_parameters")
    if isinstance(parts, dict) and "full_attention" in parts:  # as newer versions of transformers write it
        rotary = rotary_of(Config(config.path, {"rope_parameters": parts["full_attention"]}), 1e6, size)
        local = rotary_of(Config(config.path, {"rope_parameters": parts.get("sliding_attention")}), 1e4, size)
        config.know("rope_parameters", "rope_theta", "rope_scaling")
    else:
        rotary, local = rotary_of(config, 1e6, size), Rotary(config.number("rope_local_base_freq", 1e4))
    if local.factors:
        raise CompileError(
            f"{config.path}: rope_parameters scales sliding_attention; the builder scales full_attention"
        )
    config.know("rope_local_base_freq")
    bias = config.flag("attention_bias", False)
    width = config.size("hidden_size")
    made = _llama(
        config,
        head_size=size,
        rotary=rotary.base,
        rotary_factors=rotary.factors,
        local_rotary=local.base,
        norm="rms_from_1",
        activation=config.word("hidden_activation", ACTIVATIONS, "gelu_pytorch_tanh"),
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


def _gpt2(config: Config) -> Architecture:
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
        activation=config.word("activation_function", ACTIVATIONS, "gelu_new"),
        windows=(0,) * layers,
        bias=True,
        output_bias=True,
        hidden_bias=True,
        tied=config.flag("tie_word_embeddings", True),
        scale=max(width // heads, 1) ** -0.5,
        stops=config.stops(),
    )


_FAMILIES: Final[Mapping[str, Callable[[Config], Architecture]]] = {
    "gpt2": _gpt2,
    "llama": _plain_llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma3_text": _gemma3,
}
"""The builder of each `model_type`."""


def _require_consistent(path: Path, made: Architecture) -> None:
    """Raise CompileError for sizes that do not fit each other."""
    if made.heads % made.groups:
        raise CompileError(f"{path}: {made.groups} heads of keys do not divide {made.heads} heads of queries")
    if made.rotary and made.head_size % 2:
        raise CompileError(f"{path}: heads of {made.head_size} numbers have no pairs to rotate")
    if made.family == "gpt2" and made.width % made.heads:
        raise CompileError(f"{path}: {made.heads} heads do not divide {made.width} channels")
