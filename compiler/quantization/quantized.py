"""A program whose weights are codes of few bits: `dequantize` widens them where ops read them.

1. The tensor of a weight keeps its name and is the result of `dequantize`, so that other ops stay as they are. A weight
   of 16 bits becomes float32: its casts read that as it is, and ops that need 16 bits get a cast.
2. A look-up of rows reads codes and scales, and widens these rows only.
3. A program that trained one of the weights loses its updates and its entry `train`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from compiler.build.brought_arrays import read
from compiler.errors import compile_errors
from compiler.quantization.block_codes import BITS, BLOCK, narrow, wide
from compiler.quantization.read_parts import read_parts
from compiler.quantization.weight_names import CODES, SCALES, matches, parameters_of
from compiler.train.adapters import is_adapter
from compiler.train.written_ops import replace_ops, written
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import HALVES, NAMES, REALS, DTypeName
from prograd_proto.files import copy_of
from prograd_proto.tensor_types import shape_of
from registry import Block, OpError, Value, ops
from runtime.conversion import converted
from runtime.files.tensor_files import read_one_by_one, unverified


class Stored(NamedTuple):
    """The states of a program by name, and where their initial values are: arrays by file, else files of a folder."""

    states: Mapping[str, pb.StateDesc]
    arrays: Mapping[str, Mapping[str, Any]]
    folder: Path


def chosen_weights(states: Mapping[str, pb.StateDesc], keep: Sequence[str]) -> list[str]:
    """Return the weights that become codes: parameters of rows of whole blocks, but those that `keep` matches.

    Raises OpError for a pattern that matches nothing, and if no weight is left.
    """
    fitting = [name for name in parameters_of(states, keep, "quantize") if _fits(states[name])]
    chosen = [name for name in fitting if not any(matches(name, pattern) for pattern in keep)]
    if fitting and not chosen:
        raise OpError("quantize: each weight that could become codes is to stay as it is; there is nothing to do")
    if not chosen:
        raise OpError(
            f"quantize: no parameter has two axes and rows of {BLOCK} elements or a multiple; there is nothing to do"
        )
    return chosen


def _fits(state: pb.StateDesc) -> bool:
    shape = shape_of(state.shape)
    is_matrix = len(shape) > 1 and prod(map(int, shape)) > 0 and int(shape[-1]) % BLOCK == 0
    return is_matrix and NAMES[state.dtype] in REALS - {"float64"} and not is_adapter(state.name)


def values_of(
    stored: Stored, chosen: Sequence[str], given: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Iterator[tuple[str, Any]]]:
    """Return the values of states that stay, by name, and the name and numbers of each chosen weight, as float32.

    The weights are read one by one, in any order. The states that stay are those in files or in `arrays`; with `given`
    values, all parameters and permanent buffers. Raises OpError for a weight without values.
    """
    kinds = (pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER)
    lasting = {s.name: s for s in stored.states.values() if s.kind in kinds and s.lifespan == pb.LIFESPAN_ALWAYS}

    def found(states: Iterable[pb.StateDesc]) -> Iterator[tuple[str, Any]]:
        if given is None:
            return _initial_arrays(stored, states)
        return ((s.name, converted(np.asarray(given[s.name]), NAMES[s.dtype])) for s in states if s.name in given)

    for name in chosen:
        if lasting[name].WhichOneof("initial") != "external" if given is None else name not in given:
            raise OpError(
                f"quantize: the values of {name} are not known before the program runs; give values=run.state"
            )
    stay = dict(found(state for name, state in lasting.items() if name not in chosen))
    return stay, ((name, converted(array, "float32")) for name, array in found(lasting[name] for name in chosen))


def norms_of(stored: Stored, weight: str, axis: int) -> Any:
    """Return the norms of the initial value of a matrix along an axis; raise OpError for a weight without values."""
    names = [weight] if weight in stored.states else [f"{weight}.{word}" for word in (CODES, SCALES)]
    found = dict(_initial_arrays(stored, [stored.states[name] for name in names]))
    if weight in stored.states and weight not in found:
        raise OpError(
            f"lora: DoRA begins with the norms of {weight}, whose values are not known before the program runs; "
            "give it initial=from_file(...), or leave dora out"
        )
    array = converted(found[weight], "float64") if weight in found else wide(*(found[name] for name in names))
    return np.sqrt(np.square(array.astype(np.float64)).sum(axis)).astype(np.float32)


def _initial_arrays(stored: Stored, states: Iterable[pb.StateDesc]) -> Generator[tuple[str, Any]]:
    """Yield the names and values of the states whose initial values are in arrays or files.

    Raises ProgramError if a file cannot be read or lacks one.
    """
    by_file: dict[str, dict[str, list[str]]] = {}
    for state in states:
        if state.WhichOneof("initial") == "external":
            by_file.setdefault(state.external.path, {}).setdefault(state.external.key, []).append(state.name)
    for path, names in by_file.items():
        there = stored.arrays.get(path)
        if there is not None:
            yield from ((name, read(there[key])) for key, of_key in names.items() for name in of_key)
            continue
        with compile_errors(), unverified(stored.folder / path) as reader:
            for key, array in read_one_by_one(stored.folder / path, reader, names):
                yield from ((name, array) for name in names[key])


def codes_of(name: str, array: Any, form: str) -> dict[str, Any]:
    """Return the arrays that stand for a weight by name; raise OpError for numbers that no codes stand for."""
    try:
        codes, scales = narrow(array, form)
    except ValueError as error:
        raise OpError(f"quantize: {name} {error}; keep={name!r} leaves it as it is") from None
    return {f"{name}.{CODES}": codes, f"{name}.{SCALES}": scales}


def widen_in(block: Block, types: Mapping[str, Sequence[TensorType]], form: str) -> None:
    """Let a block that reads weights read their codes and scales instead; `types` are theirs, by weight."""
    stored = read_parts(block, types, (CODES, SCALES))
    weights = {tensor: _Weight(tensor, block.types[tensor], parts, BITS[form]) for tensor, parts in stored.items()}
    if weights:
        _Widening(block, weights).replace()


class _Weight(NamedTuple):
    """A weight in a block: its tensor, the type that it had, its codes and scales, and the bits of a code."""

    tensor: str
    type: TensorType
    stored: list[Value]
    bits: int


class _Widening:
    """The replacement of the readers of weights in a block."""

    def __init__(self, block: Block, weights: Mapping[str, _Weight]) -> None:
        self.block, self.weights = block, weights
        self.old = [copy_of(op) for op in block.desc.ops]
        self.readers: dict[str, list[pb.OpDesc]] = {}
        for op in self.old:
            for name in set(op.inputs):
                self.readers.setdefault(name, []).append(op)
        self.ends = {f.tensor for f in block.desc.fetches} | {u.tensor for u in block.desc.updates}

    def replace(self) -> None:
        """Write the ops anew."""
        made, missing = list[pb.OpDesc](), dict(self.weights)
        for op in self.old:
            if self._looked_up(op):
                made += self._look_up(op)
                continue
            for name in dict.fromkeys(op.inputs):
                if name in missing:
                    made += self._whole(missing.pop(name))
            made.append(op)
        for weight in missing.values():
            made += self._whole(weight) if weight.tensor in self.ends else []
        replace_ops(self.block.desc, made)

    def _looked_up(self, op: pb.OpDesc) -> _Weight | None:
        """Return the weight that an op looks up rows of."""
        weight = self.weights.get(op.inputs[0]) if op.type == "gather" else None
        return weight if weight and attributes_of(op)["axis"] in (0, -weight.type.rank) else None

    def _whole(self, weight: _Weight) -> list[pb.OpDesc]:
        """Return the ops that make a weight, under its name."""
        names = [op for op in self.readers.get(weight.tensor, ()) if not self._looked_up(op)]
        return written(
            self.block,
            weight.tensor,
            lambda: self._rounded(weight, weight.tensor, names, ops.dequantize(*weight.stored, bits=weight.bits)),
        )

    def _look_up(self, op: pb.OpDesc) -> list[pb.OpDesc]:
        """Return the ops that look up rows, under the name of the result."""
        weight = self._looked_up(op)
        assert weight is not None, "asked before"
        indices, name = self.block.value(op.inputs[1]), op.outputs[0]

        def rows() -> Value:
            parts = [ops.gather(each, indices, axis=0) for each in weight.stored]
            return self._rounded(weight, name, self.readers.get(name, []), ops.dequantize(*parts, bits=weight.bits))

        return written(self.block, name, rows)

    def _rounded(self, weight: _Weight, name: str, readers: list[pb.OpDesc], x: Value) -> Value:
        """Return x in the dtype that its readers need: float32 for casts to it, else that of the weight."""
        casts = all(op.type == "cast" and attributes_of(op)["dtype"] == "float32" for op in readers)
        if weight.type.dtype not in HALVES or (casts and name not in self.ends):
            return x
        return ops.cast(x, dtype=cast(DTypeName, weight.type.dtype))
