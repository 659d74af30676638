"""Mappings of operators of ATen look at each argument, or it says nothing that they have to know."""

import dis
import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from compiler.frontends.torch.operators import OPERATORS

STATED = {"C", "HxW", "N", "chunks", "dtype", "half_to_float", "implicit", "out_int32", "output_size", "sections",
          "shape", "size", "sizes", "split_size", "split_sizes"}  # fmt: skip
"""They determine the types of results, which torch.export states."""

WITHOUT_EFFECT = {"check_errors", "compute_mode", "compute_v", "copy", "cudnn_enable", "cudnn_enabled", "device",
                  "driver", "enable_gqa", "generator", "layout", "memory_format", "non_blocking", "path", "pin_memory",
                  "sorted", "sparse", "sparse_grad"}  # fmt: skip
"""They say how or where something is computed, or what may be left out."""

OF_ONE_OPERATOR = {
    "the shape of the operand is that of the result": [
        *("aten.bernoulli.p self", "aten.empty_like.default self", "aten.expand_as.default other"),
        *("aten.exponential.default self", "aten.fill.Scalar self", "aten.fill.Tensor self"),
        *("aten.flatten.using_ints end_dim", "aten.flatten.using_ints start_dim", "aten.new_empty.default self"),
        *("aten.new_ones.default self", "aten.new_zeros.default self", "aten.normal_functional.default self"),
        *("aten.ones_like.default self", "aten.rand_like.default self", "aten.randn_like.default self"),
        *("aten.randint_like.default self", "aten.randint_like.low_dtype self"),
        *("aten.reshape_as.default other", "aten.type_as.default other", "aten.unflatten.int dim"),
        *("aten.uniform.default self", "aten.view_as.default other", "aten.zeros_like.default self"),
        *("aten._reshape_alias.default stride", "aten.empty_permuted.default physical_layout"),
    ],
    "the positions count elements of the result": [
        *("aten.max_unpool3d.default padding", "aten.max_unpool3d.default stride"),
    ],
    "running statistics are not read, or not written": [
        *("aten._native_batch_norm_legit.no_stats training", "aten.instance_norm.default momentum"),
        *("aten._native_batch_norm_legit_no_training.default momentum", "aten.instance_norm.default running_var"),
        "aten.instance_norm.default use_input_stats",
    ],
    "the weights show the number": [
        *("aten.gru.input num_layers", "aten.lstm.input num_layers", "aten.rnn_relu.input num_layers"),
        "aten.rnn_tanh.input num_layers",
    ],
    "PyTorch writes it": ["aten.rrelu_with_noise.default noise", "aten.rrelu_with_noise_functional.default noise"],
    "every sort keeps the order of equal elements": ["aten.sort.stable stable"],
    "the operator is refused": ["aten.masked_select.default mask", "aten.masked_select.default self"],
}


def test_no_mapping_ignores_an_argument_that_changes_results():
    named = {pair for pairs in OF_ONE_OPERATOR.values() for pair in pairs}
    found = {f"{name} {argument}" for name, argument in ignored() if argument not in STATED | WITHOUT_EFFECT}
    assert found <= named, sorted(found - named)


def ignored() -> Iterator[tuple[str, str]]:
    """Every operator of ATen with an argument that its mapping takes and does not look at."""
    for name, mapping in OPERATORS.items():
        if name.count(".") == 2 and name.startswith("aten."):
            package, operator, overload = name.split(".")
            schema = getattr(getattr(getattr(torch.ops, package), operator), overload)._schema
            yield from ((name, argument) for argument in ignored_of(mapping, schema.arguments))


def ignored_of(mapping: FunctionType, arguments: Any) -> Iterator[str]:
    """The arguments of a schema whose parameters the code of a mapping never reads."""
    parameters = list(inspect.signature(mapping).parameters.values())[1:]  # the first is the call
    known = {p.name: p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    in_order = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), "")
    more = next((p.name for p in parameters if p.kind == p.VAR_KEYWORD), "")
    read = {*mapping.__code__.co_cellvars}  # functions inside read them
    read |= {i.argval for i in dis.get_instructions(mapping) if i.opname.startswith("LOAD_FAST")}
    for number, argument in enumerate(arguments):
        place = in_order[number] if number < len(in_order) else rest
        name = known.get(argument.name, more) if argument.kwarg_only else place
        if name and name not in read:
            yield argument.name


def test_an_argument_that_is_ignored_would_be_seen():
    def mapping(call: Any, x: Any, alpha: float, beta: float = 1.0, *rest: Any, gamma: float, **more: Any) -> Any:
        return [x, lambda: alpha, gamma]

    schema = torch._C.parse_schema("f(Tensor x, float alpha, float beta, int n, *, float gamma, int delta) -> Tensor")
    assert list(ignored_of(mapping, schema.arguments)) == ["beta", "n", "delta"]
