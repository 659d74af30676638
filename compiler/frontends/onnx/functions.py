"""Operators that ONNX itself defines by a body of simpler ones, for those that nobody maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from compiler.frontends.onnx.old_opsets import schema_of

_NUMBERS = count(1)


def body_of(onnx: Any, node: Any, domain: str, versions: Mapping[str, int], types: Sequence[Any]) -> Any:
    """Return the function that defines the operator of a node; None if it has none."""
    version = versions.get(domain, 1)
    schema = schema_of(onnx, node.op_type, version, domain)
    if schema is None:
        return None
    if schema.has_function:
        known = schema.function_opset_versions
        read = schema.get_function_with_opset_version
        given: tuple[Any, ...] = ()
    elif schema.has_context_dependent_function:
        known = schema.context_dependent_function_opset_versions
        read = schema.get_context_dependent_function_with_opset_version
        given = node.SerializeToString(), [type.SerializeToString() for type in types]
    else:
        return None
    fitting = [each for each in known if each <= version] or known
    text = read(fitting[-1], *given)
    if not text:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return body


def inlined(onnx: Any, node: Any, body: Any, values: Mapping[str, Any]) -> list[Any]:
    """Return the nodes of a function with the names and attributes of its call."""
    prefix = f"{node.op_type}.{next(_NUMBERS)}."
    names: dict[str, str] = {}
    for i, name in enumerate(body.input):
        names[name] = node.input[i] if i < len(node.input) else ""
    for i, name in enumerate(body.output):
        names[name] = (node.output[i] if i < len(node.output) else "") or prefix + name
    for inner in body.node:
        for name in inner.output:
            if name:
                names.setdefault(name, prefix + name)
    given = {name: each.default_value for name, each in _schema_attributes(onnx, node, body)}
    given |= {attribute.name: attribute for attribute in [*body.attribute_proto, *node.attribute]}
    return [_renamed(onnx, inner, names, given) for inner in body.node]


def _schema_attributes(onnx: Any, node: Any, body: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an operator that have a default value."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    versions = {each.domain: each.version for each in body.opset_import}
    schema = onnx.defs.get_schema(node.op_type, versions.get(domain, onnx.defs.onnx_opset_version()), domain)
    return [(name, each) for name, each in schema.attributes.items() if each.default_value.name]


def _renamed(onnx: Any, node: Any, names: Mapping[str, str], given: Mapping[str, Any]) -> Any:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.input[:], made.output[:], made.attribute[:]
    made.input.extend(names.get(name, name) for name in node.input)
    made.output.extend(names.get(name, name) for name in node.output)
    for attribute in node.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is None:
            continue
        copy = made.attribute.add()
        copy.CopyFrom(source)
        copy.name = attribute.name
        if copy.type == onnx.AttributeProto.GRAPH:
            own = {x.name for x in copy.g.input} | {x.name for x in copy.g.initializer}
            own |= {name for inner in copy.g.node for name in inner.output}
            outer = {key: name for key, name in names.items() if key not in own}
            nodes = [_renamed(onnx, inner, outer, given) for inner in copy.g.node]
            del copy.g.node[:]
            copy.g.node.extend(nodes)
    return made
