"""The weights of a folder as states of a program: where they lie, as float32, or as codes of few bits."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from compiler.build.brought_arrays import Unread
from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.initial_values import InitialValues
from compiler.frontends.language_models.weights import Weights, is_meant
from compiler.quantization.block_codes import BITS
from compiler.quantization.weight_names import CODES, SCALES
from compiler.train.initialisers import from_file
from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from registry import Block, Value, ops
from runtime.conversion import converted


class Places(NamedTuple):
    """The places of states.

    Attributes:
        folder: the path of the model's folder from that of the program; None if its weights are copied.
        copies: values that are written beside the program.
        trained: patterns of the weights that are trained whole.
        codes: the number of rows that the folder's tables of codes have.
    """

    folder: str | None
    copies: InitialValues
    trained: Sequence[str]
    codes: int


@contextmanager
def scope_of_ops(block: Block, name: str) -> Generator[None]:
    """Return a context in which results of ops have names in a scope; those of states stay as they are."""
    before, block.prefix = block.prefix, f"{name}."
    try:
        yield
    finally:
        block.prefix = before


def resized(table: Any, count: int) -> Any:
    """Return a table with a number of rows; further ones are the mean of the others, as transformers begins them."""
    kept, made = min(len(table), count), table[:1].repeat(count, axis=0)
    made[:kept], made[kept:] = table[:kept], table.mean(0, dtype="float64")
    return made


class StoredStates:
    """The weights of one model in a program; those that are asked for again are the same states."""

    def __init__(self, program: Program, weights: Weights, places: Places) -> None:
        self._program, self._weights, self._places = program, weights, places
        self._read: set[str] = set()

    def weight(self, name: str, shape: tuple[int, ...], key: str | None = None, *, of_codes: bool = False) -> Value:
        """Return a weight as float32.

        `key` is its name in the folder, if that is another. A table `of_codes` may have other rows than in the folder.
        """
        state = self._state(name, shape, name if key is None else key, of_codes=of_codes)
        return state if state.dtype == "float32" else ops.cast(state, dtype="float32")

    def rows(
        self, name: str, shape: tuple[int, int], indices: Value, key: str | None = None, *, of_codes: bool = False
    ) -> Value:
        """Return rows of a table as float32; see `weight`."""
        key = name if key is None else key
        table = self._state(name, shape, key, of_codes=of_codes)
        if table.name in self._program.states:
            found = ops.embedding(table, indices)
            return found if found.dtype == "float32" else ops.cast(found, dtype="float32")
        codes, scales = (self._program.state(f"{name}.{word}") for word in (CODES, SCALES))
        bits = BITS[self._weights.tensors[key].dtype]
        return ops.dequantize(ops.embedding(codes, indices), ops.embedding(scales, indices), bits=bits)

    def require_all_read(self, is_idle: Callable[[str], bool], family: str) -> None:
        """Raise CompileError for a tensor of the folder that no layer reads, and that is not idle."""
        for name in self._weights.tensors:
            if name not in self._read and not is_idle(name):
                raise CompileError(f"{self._weights.folder}: no layer of {family} reads the weight {name}")

    def _state(self, name: str, shape: tuple[int, ...], key: str, *, of_codes: bool) -> Value:
        """Return a weight: as the folder stores it, or as float32 if it is trained."""
        if name in self._program.states or f"{name}.{CODES}" in self._program.states:
            return self._program.tensor(name)
        places = self._places
        is_resized = of_codes and shape[0] != places.codes
        there = self._weights.require(key, (places.codes, *shape[1:]) if is_resized else shape)
        if there.dtype not in ("float32", "float16", "bfloat16", *BITS):
            raise CompileError(f"{self._weights.where(there)}: {key} is {there.dtype}; weights are F32, F16 or BF16")
        self._read.add(key)
        trained = is_meant(name, places.trained)
        if is_resized:
            dtype: Any = "float32" if trained or there.dtype in BITS else there.dtype
            table = Unread(TensorType(dtype, shape), lambda: self._resized(key, shape[0], dtype))
            initial: Any = places.copies.add(name, table)
            return self._program.parameter(name, shape, initial, dtype=dtype, trainable=trained)
        if there.dtype in BITS and not trained:
            return self._widened(name, key, BITS[there.dtype])
        if places.folder is not None and (there.dtype == "float32" or not trained):
            path = there.file if places.folder == "." else f"{places.folder}/{there.file}"
            initial, dtype = from_file(path, key), there.dtype
        else:
            array = self._weights.unread(key, trained=trained)
            initial, dtype = places.copies.add(name, array), array.type.dtype
        return self._program.parameter(name, shape, initial, dtype=dtype, trainable=trained)

    def _resized(self, key: str, count: int, dtype: str) -> Any:
        return converted(resized(self._weights.array(key), count), dtype)

    def _widened(self, name: str, key: str, bits: int) -> Value:
        """Return a weight that is codes and scales, and the tensor of its name widens them."""
        parts: list[Value] = []
        for word, array in zip((CODES, SCALES), self._weights.coded(key), strict=True):
            own, dtype = f"{name}.{word}", cast(DTypeName, array.type.dtype)
            initial = self._places.copies.add(own, array)
            parts.append(self._program.buffer(own, array.type.static_shape, initial, dtype=dtype))
        return self._program.block.named(ops.dequantize(*parts, bits=bits), name)
