"""Regions of `torch.autocast`: computed in float32, with mixed precision for the products of the program.

torch.export traces casts of each operand. prograd rounds operands of products where a program is compiled
(`mixed="bfloat16"`), so the regions are traced without casts, and the import asks for mixed precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from compiler.build.mixed import Mixed, mixed
from compiler.errors import CompileError
from compiler.frontends.torch.places import place_of

REGION: Final = "wrap_with_autocast"
"""The operator of a region; its operands are device, dtype, whether it casts, whether it caches, and the graph."""

PRODUCTS: Final = (
    "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "mv", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "einsum", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh",
)  # fmt: skip
"""Operators, without overloads, that mixed precision rounds."""


def without_casts(graph: Any) -> Mixed | None:
    """Remove the casts from the regions of an exported graph; return the mixed precision that replaces them, if any.

    Raises CompileError for casts to float16, and for products outside of the regions that have no weight to name.
    """
    regions = [(node, inner) for node, inner in _regions(graph.graph) if node.args[2]]
    if not regions:
        return None
    for node, _ in regions:
        if str(node.args[1]) != "torch.bfloat16":
            raise CompileError(
                f"from_torch: autocast to {str(node.args[1]).removeprefix('torch.')} is not imported; use "
                "dtype=torch.bfloat16, or leave autocast out"
            )
        node.update_arg(2, False)
    names = {spec.arg.name: spec.target for spec in graph.graph_signature.input_specs if spec.kind.name == "PARAMETER"}
    kept = [name for node in _outside(graph.graph) for name in _weight(node, names)]
    for module in graph.graph_module.modules():
        for node in list(getattr(getattr(module, "graph", None), "nodes", ())):
            if str(node.target) == "aten._assert_tensor_metadata.default":
                node.graph.erase_node(node)
    return mixed("bfloat16", keep=list(dict.fromkeys(kept)))


def require_no_regions(graph: Any) -> None:
    """Raise CompileError if an exported program, which belongs to its user, has regions that cast."""
    if any(node.args[2] for node, _ in _regions(graph.graph)):
        raise CompileError(
            "from_torch: the exported program has regions of autocast; give the module itself, or export it without "
            "autocast and import with mixed="
        )


def _regions(graph: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the regions of a graph and of the graphs inside it, with their graphs."""
    for node in graph.nodes:
        names = [x.target for x in node.args if getattr(x, "op", "") == "get_attr"]
        for body in (getattr(getattr(graph.owning_module, name, None), "graph", None) for name in names):
            if body is not None and str(node.target) == REGION:
                yield node, body
            if body is not None:
                yield from _regions(body)


def _outside(graph: Any) -> Iterator[Any]:
    """Yield the products outside of regions."""
    for node in graph.nodes:
        name = str(node.target).split(".")
        if node.op == "call_function" and len(name) > 1 and name[1] in PRODUCTS:
            yield node


def _weight(node: Any, names: dict[str, str]) -> list[str]:
    """Return the name of a weight of a product; raise CompileError if it has none."""
    found = [names[x.name] for x in node.all_input_nodes if x.name in names]
    if not found:
        raise CompileError(
            f"from_torch: {node.target} outside of the regions of autocast{place_of(node)} has no weight, and mixed "
            "precision would round it, too; put it into a region, or leave autocast out and import with mixed="
        )
    return found[:1]
