"""Operators of other packages, imported only if their plugin's name is given.

The compiler loads the operators and the kernels of a plugin, because a memory plan contains the scratch of kernels, and
checks that they fit.
"""

from __future__ import annotations

from typing import Any

from prograd_proto import PluginError, ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.plugins import OPERATOR_GROUP, load_plugin, namespace_of, require_plugins
from prograd_proto.upgrades import every_op
from registry.audit import audit_op
from registry.op import OPS, Op
from runtime.plugins import Contract
from runtime.plugins import use_plugin as use_kernels

USED: set[str] = set()
"""Plugins in use; an operator of another plugin, which was only imported, was not audited."""


def use_plugin(name: str) -> None:
    """Import and audit the operators and kernels that an installed package declares under that name.

    Afterwards programs that use its operators can be compiled. A second call has no effect.

    Raises:
        PluginError: there is no such plugin, its modules cannot be imported, or their declarations do not fit.
    """
    if name in USED:
        return
    operators = load_plugin(OPERATOR_GROUP, name, OPS, audit_op)
    contracts = use_kernels(name)
    for type in sorted(operators.keys() ^ contracts.keys()):
        half, other = ("kernel", "operator") if type in operators else ("operator", "kernel")
        raise PluginError(f"the plugin {name!r} declares no {half} {type!r}, and it declares the {other}")
    for type, operator in operators.items():
        _require_equal(name, operator, contracts[type])
    USED.add(name)


def require_used(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless the plugins of the program's operators are in use, with the listed versions."""
    known = [type for type in OPS if namespace_of(type) in USED]
    require_plugins((op.type for op in every_op(program)), known)
    for listed in program.operators:
        if namespace_of(listed.type) and listed.type in OPS and listed.version != OPS[listed.type].version:
            raise ProgramError(
                f"the program lists version {listed.version} of {listed.type!r}, its plugin has "
                f"{OPS[listed.type].version}; use the plugin before the program is loaded"
            )


def _require_equal(plugin: str, operator: Op[..., Any], contract: Contract) -> None:
    """Raise PluginError unless the kernel has the signature and the version of the operator."""
    signature = operator.signature
    for what, declared, computed in (
        ("inputs", signature.inputs, contract.rule.inputs),
        ("attributes", {name: spec.kind for name, spec in signature.attributes.items()}, contract.rule.attributes),
        ("optional inputs", sum(default is None for default in signature.defaults.values()), contract.rule.optional),
        ("variadic inputs", signature.variadic, contract.rule.variadic),
        ("variadic outputs", signature.variadic_outputs, contract.variadic_outputs),
        ("random numbers", operator.random, contract.random),
    ):
        if declared != computed:
            raise PluginError(
                f"the plugin {plugin!r}: the operator {operator.name!r} has {what} {_shown(declared)}, "
                f"its kernel {_shown(computed)}"
            )


def _shown(what: object) -> str:
    if isinstance(what, dict):
        return f"({', '.join(f'{name}: {kind}' for name, kind in what.items())})"  # pyright: ignore[reportUnknownVariableType]: of any dict
    return f"({', '.join(map(str, what))})" if isinstance(what, tuple) else str(what)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]: of any tuple
