"""The layers of an encoder with a head for classes, from codes to a score for each class."""

from __future__ import annotations

from compiler.build.program import Program
from compiler.frontends.language_models.encoder_config import HEADS, WORDS, Encoder
from compiler.frontends.language_models.stored_states import StoredStates, scope_of_ops
from compiler.frontends.language_models.weights import Weights
from compiler.train.initialisers import normal, zeros
from registry import Value, ops

_OLD_WORDS = {"weight": "gamma", "bias": "beta"}
"""The names of weights of normalisations in old files."""

_OTHER_HEADS = ("cls.", "lm_head.", "vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "qa_outputs.")
"""The beginnings of weights of heads for other tasks."""


class EncoderNetwork:
    """The layers of one encoder in a program.

    `fresh` are the layers of the head that get new weights, because the folder has none or those of other classes.
    """

    def __init__(
        self, program: Program, made: Encoder, weights: Weights, states: StoredStates, *, new_classes: bool
    ) -> None:
        self._program, self.made, self._weights, self._states = program, made, weights, states
        self.words = WORDS[made.kind]
        first, last = HEADS[made.kind]
        self.fresh = [name for name in (first, last) if self._key(f"{name}.weight") not in weights.tensors]
        if new_classes and last not in self.fresh:
            self.fresh.append(last)

    def scores(self, codes: Value, types: Value | None, lengths: Value) -> Value:
        """Return the scores of the classes, [n, classes], for codes [n, l] of which the first `lengths` [n] count."""
        made, length = self.made, int(codes.shape[1])
        numbers = ops.range.on(self._program)(stop=length, dtype="int32")
        x = self._rows("word_embeddings", made.vocabulary, codes)
        x = x + self._rows("position_embeddings", made.positions + made.first_position, numbers + made.first_position)
        if made.types:
            x = x + self._rows("token_type_embeddings", made.types, types if types is not None else codes * 0)
        x = self._norm(x, f"{self.words.prefix}embeddings.LayerNorm")
        mask = ops.unsqueeze(numbers, axis=(0,)) < ops.unsqueeze(lengths, axis=(1,))
        mask = ops.unsqueeze(mask, axis=(1, 2))
        for layer in range(made.layers):
            with scope_of_ops(x.block, f"layers.{layer}"):
                x = self._layer(x, f"{self.words.prefix}{self.words.layers}.{layer}", mask)
        return self._head(x[:, 0])

    def require_all_read(self) -> None:
        """Raise CompileError for a tensor of the folder that no layer reads."""
        heads = {self._key(f"{name}.{word}") for name in self.fresh for word in ("weight", "bias")}
        pooler = () if self.made.kind == "bert" else (f"{self.words.prefix}pooler.", "pooler.")

        def is_idle(name: str) -> bool:
            of_rows = name.endswith(("position_ids", "token_type_ids"))
            return of_rows or name in heads or name.startswith((*_OTHER_HEADS, *pooler))

        self._states.require_all_read(is_idle, self.made.family)

    def _layer(self, x: Value, at: str, mask: Value) -> Value:
        made, words = self.made, self.words
        size = made.width // made.heads
        q, k, v = (
            ops.transpose(
                ops.reshape(self._linear(x, f"{at}.{name}", made.width), shape=(*x.shape[:2], made.heads, size)),
                axis=(0, 2, 1, 3),
            )
            for name in (words.queries, words.keys, words.values)
        )
        y = ops.scaled_dot_product_attention(q, k, v, mask, scale=size**-0.5)
        y = ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=x.shape)
        x = self._norm(x + self._linear(y, f"{at}.{words.attended}", made.width), f"{at}.{words.norm_1}")
        inner = self._activated(self._linear(x, f"{at}.{words.inner}", made.hidden))
        return self._norm(x + self._linear(inner, f"{at}.{words.outer}", made.width), f"{at}.{words.norm_2}")

    def _head(self, x: Value) -> Value:
        first, last = HEADS[self.made.kind]
        y = self._linear(x, first, self.made.width)
        y = ops.relu(y) if self.made.kind == "distilbert" else ops.tanh(y)
        return self._linear(y, last, len(self.made.classes))

    def _activated(self, x: Value) -> Value:
        activation = self.made.activation
        if activation == "gelu_tanh":
            return ops.gelu(x, approximate="tanh")
        if activation == "gelu":
            return ops.gelu(x)
        return ops.relu(x) if activation == "relu" else ops.silu(x)

    def _linear(self, x: Value, name: str, size: int) -> Value:
        inputs = int(x.shape[-1])
        if name in self.fresh:
            weight = self._program.parameter(f"{name}.weight", (size, inputs), normal(0.0, self.made.deviation))
            bias = self._program.parameter(f"{name}.bias", (size,), zeros())
        else:
            weight, bias = self._weight(f"{name}.weight", (size, inputs)), self._weight(f"{name}.bias", (size,))
        return ops.matmul(x, weight, transpose_b=True) + bias

    def _norm(self, x: Value, name: str) -> Value:
        size = (int(x.shape[-1]),)
        weight, bias = (self._weight(f"{name}.{word}", size) for word in ("weight", "bias"))
        return ops.layer_norm(x, weight, bias, epsilon=self.made.epsilon)[0]

    def _rows(self, part: str, count: int, indices: Value) -> Value:
        name = f"{self.words.prefix}embeddings.{part}.weight"
        is_of_codes = part == "word_embeddings"
        return self._states.rows(name, (count, self.made.width), indices, self._key(name), of_codes=is_of_codes)

    def _weight(self, name: str, shape: tuple[int, ...]) -> Value:
        return self._states.weight(name, shape, self._key(name))

    def _key(self, name: str) -> str:
        """Return the name of a weight in the folder: without the family's prefix, or with old words, as some have."""
        bare = name.removeprefix(self.words.prefix)
        part, _, word = name.rpartition(".")
        old = f"{part}.{_OLD_WORDS.get(word, word)}"
        keys = (name, bare, old, old.removeprefix(self.words.prefix))
        return next((key for key in keys if key in self._weights.tensors), name)
