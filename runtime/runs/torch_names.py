"""The position of the states of layers in a state dict of PyTorch: the names of its modules, and the order of axes.

A layer of prograd has names of its own for its states, and for each this says which tensor of which module it is:

    dense, conv     w              weight, whose axes are out, in, window
                    b              bias
    norms           scale, bias    weight, bias
                    mean, variance running_mean, running_var
    embedding       table          weight
    lstm, gru       input, state   weight_ih_l0, weight_hh_l0, of out, in; layer2.back is l2_reverse
                    …_bias         bias_ih_l0, bias_hh_l0
    attention       q, k, v        thirds of in_proj_weight and in_proj_bias, or q_proj_weight …
                    out            out_proj
    transformer     attention      self_attn
                    forward1, 2    linear1, linear2

States of an imported module know its names and axes themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.files.tensor_files import write_safetensors

IGNORED: Final = "num_batches_tracked"
"""Last word of the name of a counter in state dicts that no layer needs."""

_WORDS: Final = {
    "w": "weight",
    "b": "bias",
    "scale": "weight",
    "bias": "bias",
    "mean": "running_mean",
    "variance": "running_var",
    "table": "weight",
}
_RECURRENT: Final = {
    "input": "weight_ih",
    "state": "weight_hh",
    "input_bias": "bias_ih",
    "state_bias": "bias_hh",
}
_TURNED: Final = {"w", "input", "state"}
_MODULES: Final = {"attention": "self_attn", "forward1": "linear1", "forward2": "linear2", "out": "out_proj"}
_THIRDS: Final = {"q": 0, "k": 1, "v": 2}


class Source(NamedTuple):
    """A tensor of a state dict, or one of three equal parts of it; a transposed one begins with the axes out, in."""

    tensor: str
    turned: bool
    third: int | None = None
    axes: tuple[int, ...] = ()

    def arranged(self, array: Array) -> Array:
        """Return the part of the tensor that is a state, with the axes of prograd: window, in, out."""
        if self.third is not None:
            size = len(array) // 3
            array = array[self.third * size : (self.third + 1) * size]
        if len(self.axes) == array.ndim > 0:
            return np.transpose(array, self.axes)
        if not self.turned or array.ndim < 2:
            return array
        return np.transpose(array, (*range(2, array.ndim), 1, 0))


def torch_sources(state: str) -> Iterator[Source]:
    """Yield the tensors that a state may be, the likeliest first."""
    *modules, word = state.split(".")
    turned = word in _TURNED
    if word in _RECURRENT:
        yield Source(_recurrent(modules, _RECURRENT[word]), turned)
    if word not in _WORDS:
        return
    for path in ([_MODULES.get(module, module) for module in modules], modules):
        yield Source(".".join([*path, _WORDS[word]]), turned)
        if path and path[-1] in _THIRDS and word in ("w", "b"):
            whole, third = path[:-1], path[-1]
            if word == "w":
                yield Source(".".join([*whole, f"{third}_proj_weight"]), turned)
            yield Source(".".join([*whole, f"in_proj_{_WORDS[word]}"]), turned, _THIRDS[third])


def _recurrent(modules: list[str], word: str) -> str:
    """Return the tensor of a layer and direction: encoder.layer1.back becomes encoder.weight_ih_l1_reverse."""
    back = modules[-1:] == ["back"]
    modules = modules[:-1] if back else modules
    numbered = re.fullmatch(r"layer([0-9]+)", modules[-1]) if modules else None
    layer, path = (numbered[1], modules[:-1]) if numbered else ("0", modules)
    return ".".join([*path, f"{word}_l{layer}{'_reverse' if back else ''}"])


def write_imported(
    path: str | os.PathLike[str],
    program: pb.ProgramDesc,
    arrays: Mapping[str, Array],
    layout: str,
    *,
    force: bool,
) -> None:
    """Write the tensors of a model under its names and with its axes; a tied tensor is written under each name.

    Raises UsageError for an unknown layout, or if no state was imported; for other errors see `write_output`.
    """
    if layout != "torch":
        raise UsageError(f"layout={layout!r} is not one of prograd, torch")
    tensors = {
        name: _of_model(arrays[state.name], state.imported.axes)
        for state in program.states
        if state.HasField("imported") and state.name in arrays
        for name in state.imported.names
    }
    if not tensors:
        raise UsageError("layout='torch': no state of this program was imported from a module")
    write_safetensors(path, tensors, {}, force=force)


def _of_model(array: Array, axes: Any) -> Array:
    """Return a state with the axes of the model."""
    return np.ascontiguousarray(np.transpose(array, np.argsort(axes))) if len(axes) == array.ndim > 0 else array
