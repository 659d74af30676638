"""The layers of a language model, from codes to scores of the next code."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from compiler.frontends.language_models.config import Architecture
from compiler.frontends.language_models.stored_states import StoredStates, scope_of_ops
from compiler.frontends.language_models.weights import Weights
from registry import Value, ops

Attend = Callable[[int, Value, Value, Value], Value]
"""From a layer's number, queries [n, h, l, d], keys and values [n, g, l, d] to the attended values [n, h, l, d]."""


class Network:
    """The layers of one model in a program; each call adds ops that read the same states."""

    def __init__(self, made: Architecture, weights: Weights, states: StoredStates) -> None:
        self.made, self._weights, self._states = made, weights, states
        self._prefix = _prefix(made, weights)

    def hidden(self, codes: Value, positions: Value, attend: Attend) -> Value:
        """Return the output of the layers [n, l, width] for codes [n, l], before the head.

        `positions` broadcast to [n, l].
        """
        made, names = self.made, _NAMES[_is_gpt2(self.made)]
        x = self._rows(names.codes, (made.vocabulary, made.width), codes, of_codes=True)
        if made.embedding_scale != 1:
            x = x * _rounded_to(made.embedding_scale, self.stored(names.codes))
        if not made.rotary:
            x = x + self._rows(names.positions, (made.positions, made.width), positions)
        for layer in range(made.layers):
            with scope_of_ops(x.block, f"layers.{layer}"):
                x = self._block(x, layer, positions, attend)
        return self._norm(x, names.last_norm)

    def scores(self, x: Value) -> Value:
        """Return the scores of the next code for each position, [n, l, vocabulary]."""
        return ops.matmul(x, self.head(), transpose_b=True)

    def head(self) -> Value:
        """Return the weights that give the scores, [vocabulary, width]."""
        return self._states.weight(self.head_name, (self.made.vocabulary, self.made.width), of_codes=True)

    @property
    def head_name(self) -> str:
        """The name of the weights of the head, which may be the table of the codes."""
        return self._prefix + _NAMES[_is_gpt2(self.made)].codes if self.made.tied else "lm_head.weight"

    def require_all_read(self) -> None:
        """Raise CompileError for a tensor of the folder that no layer reads."""
        idle = ("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias")
        tied = {"lm_head.weight"} if self.made.tied else set[str]()
        self._states.require_all_read(lambda name: name in tied or name.endswith(idle), self.made.family)

    def stored(self, name: str) -> str:
        """Return the dtype in which a weight is stored in the folder."""
        return self._weights.tensors[self._prefix + name].dtype

    def _block(self, x: Value, layer: int, positions: Value, attend: Attend) -> Value:
        made, names = self.made, _NAMES[_is_gpt2(self.made)]
        at = f"{names.layers}.{layer}."
        y = self._attention(self._norm(x, at + names.norm_1), layer, at + names.attention, positions, attend)
        x = x + (self._norm(y, at + "post_attention_layernorm") if made.norms_behind else y)
        y = self._forward(self._norm(x, at + names.norm_2[made.norms_behind]), at + "mlp")
        return x + (self._norm(y, at + "post_feedforward_layernorm") if made.norms_behind else y)

    def _attention(self, x: Value, layer: int, at: str, positions: Value, attend: Attend) -> Value:
        made = self.made
        q, k, v = self._queries_keys_values(x, at)
        if made.norms_of_heads:
            q, k = self._norm(q, f"{at}.q_norm"), self._norm(k, f"{at}.k_norm")
        if made.rotary:
            is_local = made.windows[layer] and made.local_rotary
            base, factors = (made.local_rotary, ()) if is_local else (made.rotary, made.rotary_factors)
            among = ops.unsqueeze(positions, axis=(1,)) if positions.rank == 2 else positions
            q, k = (ops.rotary_embedding(each, among, factors or None, base=base) for each in (q, k))
        y = ops.transpose(attend(layer, q, k, v), axis=(0, 2, 1, 3))
        y = ops.reshape(y, shape=(*x.shape[:2], made.heads * made.head_size))
        return self._linear(y, f"{at}.{'c_proj' if _is_gpt2(made) else 'o_proj'}", made.width, made.output_bias)

    def _queries_keys_values(self, x: Value, at: str) -> list[Value]:
        made = self.made
        sizes = [made.heads, made.groups, made.groups]
        if _is_gpt2(made):
            y = self._linear(x, f"{at}.c_attn", 3 * made.width, made.bias)
            parts = [y[..., i * made.width : (i + 1) * made.width] for i in range(3)]
        else:
            parts = [
                self._linear(x, f"{at}.{name}_proj", size * made.head_size, made.bias)
                for name, size in zip("qkv", sizes, strict=True)
            ]
        heads = (
            ops.reshape(part, shape=(*x.shape[:2], size, made.head_size))
            for part, size in zip(parts, sizes, strict=True)
        )
        return [ops.transpose(each, axis=(0, 2, 1, 3)) for each in heads]

    def _forward(self, x: Value, at: str) -> Value:
        made = self.made
        if _is_gpt2(made):
            inner = self._activated(self._linear(x, f"{at}.c_fc", made.hidden, made.hidden_bias))
            return self._linear(inner, f"{at}.c_proj", made.width, made.hidden_bias)
        gate = self._activated(self._linear(x, f"{at}.gate_proj", made.hidden, made.hidden_bias))
        return self._linear(
            gate * self._linear(x, f"{at}.up_proj", made.hidden, made.hidden_bias),
            f"{at}.down_proj", made.width, made.hidden_bias,
        )  # fmt: skip

    def _activated(self, x: Value) -> Value:
        if self.made.activation == "silu":
            return ops.silu(x)
        return ops.gelu(x, approximate="tanh") if self.made.activation == "gelu_tanh" else ops.gelu(x)

    def _linear(self, x: Value, name: str, size: int, bias: bool) -> Value:
        """Return the product with a weight, which GPT-2 stores with inputs first, and others with outputs first."""
        inputs = int(x.shape[-1])
        if _is_gpt2(self.made):
            y = ops.matmul(x, self._weight(f"{name}.weight", (inputs, size)))
        else:
            y = ops.matmul(x, self._weight(f"{name}.weight", (size, inputs)), transpose_b=True)
        return y + self._weight(f"{name}.bias", (size,)) if bias else y

    def _norm(self, x: Value, name: str) -> Value:
        made, size = self.made, (int(x.shape[-1]),)
        weight = self._weight(f"{name}.weight", size)
        if made.norm == "layer":
            return ops.layer_norm(x, weight, self._weight(f"{name}.bias", size), epsilon=made.epsilon)[0]
        scale = weight + 1.0 if made.norm == "rms_from_1" else weight
        return ops.rms_norm(x, scale, epsilon=made.epsilon)[0]

    def _rows(self, name: str, shape: tuple[int, int], indices: Value, *, of_codes: bool = False) -> Value:
        return self._states.rows(self._prefix + name, shape, indices, of_codes=of_codes)

    def _weight(self, name: str, shape: tuple[int, ...]) -> Value:
        return self._states.weight(self._prefix + name, shape)


class _Names(NamedTuple):
    """The words of a family for the parts of a model; `norm_2` without and with a norm behind attention."""

    codes: str
    positions: str
    layers: str
    norm_1: str
    attention: str
    norm_2: tuple[str, str]
    last_norm: str


_NAMES = {
    False: _Names(
        "embed_tokens.weight", "", "layers", "input_layernorm", "self_attn",
        ("post_attention_layernorm", "pre_feedforward_layernorm"), "norm",
    ),
    True: _Names("wte.weight", "wpe.weight", "h", "ln_1", "attn", ("ln_2", "ln_2"), "ln_f"),
}  # fmt: skip


def _is_gpt2(made: Architecture) -> bool:
    return made.family == "gpt2"


def _prefix(made: Architecture, weights: Weights) -> str:
    """Return the word before the names of all weights but the head; GPT-2's files have it or not."""
    if not _is_gpt2(made):
        return "model."
    return "transformer." if "transformer.wte.weight" in weights.tensors else ""


def _rounded_to(number: float, dtype: str) -> float:
    """Return a number rounded to the dtype of a weight, because the published models multiply in that dtype."""
    from struct import pack, unpack

    if dtype == "bfloat16":
        [bits] = unpack("<I", pack("<f", number))
        return float(unpack("<f", pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0])
    return float(unpack("<e", pack("<e", number))[0]) if dtype == "float16" else number
