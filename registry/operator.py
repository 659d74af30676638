"""Op: an operator, which infers the types of its results and has gradient and other rules."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast

from prograd_proto import Attribute, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.dtypes import FLOATS, HALVES
from prograd_proto.result_types import RULES
from prograd_proto.upgrades import declare_version
from registry.block import Block
from registry.errors import OpError
from registry.other_names import attribute_by_name
from registry.signature import MAX_INT64, STATE_MARK, Signature, python_signature, read_signature, without_annotations
from registry.table import OPS as CALLED
from registry.traits import Traits
from registry.value import Value

P = ParamSpec("P")
R = TypeVar("R")

OPS: Final = cast("dict[str, Op[..., Any]]", CALLED)
"""All operators by name."""


class OpFacts(TypedDict, total=False):
    """The facts that a declaration may state of an operator besides its types.

    Attributes:
        differentiable: False declares that no gradient flows through any input or output.
        no_gradient: inputs and outputs through which no gradient flows.
        random: the op draws random numbers from a stream of its own.
        version: version of the meaning of a plugin's operator; that of others is in `prograd_proto.result_types`.
        namespace: name of the plugin that declares the operator; the op type begins with it and a dot.
        halves: the op of a plugin accepts and returns 16-bit floats too; those of others say so with their rule.
    """

    differentiable: bool
    no_gradient: tuple[str, ...]
    random: bool
    version: int
    namespace: str
    halves: bool


class Op(Generic[P, R]):
    """An operator: its signature and its rules. A call appends an op to a block."""

    def __init__(self, declaration: Callable[P, Any], outputs: tuple[str, ...], **facts: Unpack[OpFacts]) -> None:
        namespace, version = facts.get("namespace", ""), facts.get("version", 1)
        self.name = f"{namespace}.{declaration.__name__}" if namespace else declaration.__name__
        self.declaration = declaration
        rule = RULES.get(self.name)
        self.types = self._own_types if rule is None else rule.results
        self.signature: Signature = read_signature(declaration, outputs)
        self.differentiable = facts.get("differentiable", True)
        self.no_gradient = frozenset(facts.get("no_gradient", ()))
        self.random = facts.get("random", False)
        self.version = version if rule is None else rule.version
        self.halves = facts.get("halves", False) if rule is None else rule.halves
        self.written_rule: Callable[..., dict[str, Attribute]] | None = None
        self.gradient_rule: Callable[..., Any] | None = None
        self.inference_rule: Callable[..., Any] | None = None
        self.traits = Traits()
        self.__doc__ = declaration.__doc__
        self._inferred: dict[object, tuple[TensorType, ...]] = {}
        names = {*self.signature.inputs, *self.signature.outputs}
        if self.name in OPS:
            raise OpError(f"operator {self.name!r} is declared twice")
        if namespace and not namespace.isidentifier():
            raise OpError(f"{declaration.__name__}: the namespace {namespace!r} is no Python name")
        if unknown := facts.keys() - OpFacts.__annotations__.keys():
            raise TypeError(f"op() got an unexpected keyword argument {min(unknown)!r}")
        taken = names & {f"d{name}" for name in self.signature.outputs}
        if taken:
            raise OpError(f"{self.name}: a rule could not tell {sorted(taken)} from the gradient of an output")
        if not self.no_gradient <= names:
            raise OpError(
                f"{self.name}: no_gradient names {sorted(self.no_gradient - names)}; it may name {sorted(names)}"
            )
        if namespace:
            declare_version(self.name, version)
        OPS[self.name] = self

    def __repr__(self) -> str:
        call = without_annotations(python_signature(self.declaration, self.signature.outputs))
        on = "" if set(self.signature.inputs) - self.signature.defaults.keys() else ".on(program)"
        return f"ops.{self.name}{on}{call} -> {', '.join(self.signature.outputs)}"  # `help` shows 100 characters

    if not TYPE_CHECKING:  # hidden from type checkers, which know the attributes

        def __getattr__(self, name: str) -> Any:
            if name == "__signature__":  # `inspect`, help and notebooks read it; the class has its own
                return python_signature(self.declaration, self.signature.outputs)
            raise AttributeError(f"the operator {self.name!r} has no attribute {name!r}")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Append the op to the block of its operands and return its outputs."""
        return self._append(self._block_of(args, kwargs), args, kwargs)

    def on(self, block: Block | HasBlock) -> Callable[P, R]:
        """Return the operator as a function that appends to that block or program, for ops without operands."""
        target = (block if isinstance(block, Block) else block.block).root.active
        return lambda *args, **kwargs: self._append(target, args, kwargs)

    def replay(self, random_stream: int) -> Callable[P, R]:
        """Return the operator as a function whose new op draws the numbers of that stream again."""

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return self._append(self._block_of(args, kwargs), args, kwargs, random_stream)

        return call

    def written(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the rule that normalises attributes to the stored form."""
        self.written_rule = self._checked_rule(rule, "written form", set())
        return rule

    def gradient(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the gradient rule; it may name any input, output, d<output> or attribute.

        The rule of a random op may also name `random_stream`, the number that `replay` takes.
        """
        self.gradient_rule = self._checked_rule(rule, "gradient", {f"d{name}" for name in self.signature.outputs})
        return rule

    def inference(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the inference form, used outside training: one Value for each output, or None."""
        self.inference_rule = self._checked_rule(rule, "inference form", set())
        return rule

    def infer_types(self, inputs: list[TensorType | None], attributes: dict[str, Attribute]) -> tuple[TensorType, ...]:
        """Return the output types for these input types (None for an absent input); raise OpError."""
        key = (*inputs, *(_hashable(value) for value in attributes.values()))
        if key not in self._inferred:
            self._inferred[key] = self._infer(inputs, attributes)
        return self._inferred[key]

    def scope(self, block: Block, desc: pb.OpDesc, attributes: dict[str, Attribute]) -> dict[str, Any]:
        """Return the names that a rule may use for an op in `block`: its inputs, outputs and attributes."""
        inputs = [block.value(name) if name else None for name in desc.inputs[:]]
        outputs = [block.value(name) for name in desc.outputs[:]]
        stream = {"random_stream": desc.random_stream} if self.random else {}
        return self.signature.name_inputs(inputs) | self.signature.name_outputs(outputs) | attributes | stream

    def _block_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Block:
        for operand in (*args, *kwargs.values()):
            if isinstance(operand, Value):
                return operand.block.root.active
        for operand in (*args, *(kwargs[name] for name in self.signature.inputs if name in kwargs)):
            if isinstance(operand, list | tuple):
                raise OpError(f"{self.name}: the tensors are given one by one; those of a list as ops.{self.name}(*xs)")
        raise OpError(f"{self.name}: no operand is a tensor of a program; use ops.{self.name}.on(program)(...)")

    def _append(self, block: Block, args: tuple[Any, ...], kwargs: dict[str, Any], random_stream: int = 0) -> R:
        values, attributes = self._bind(block, args, kwargs)
        types = [None if value is None else value.type for value in values]
        try:
            attributes = self.signature.stored(attributes)
            if self.written_rule is not None:
                scope = self.signature.name_inputs(values) | attributes
                attributes |= self.written_rule(**{name: scope[name] for name in rule_names(self.written_rule)})
            results = self.infer_types(types, attributes)
        except OpError as error:
            raise OpError(f"{self._described(block, types)}: {error}") from None
        kinds = self.signature.attributes
        messages = [attribute_message(name, kinds[name].kind, value) for name, value in attributes.items()]
        suffixes = self.signature.output_suffixes(len(results))
        inputs = ["" if value is None else value.name for value in values]
        outputs = list(zip(suffixes, results, strict=True))
        if self.random and not random_stream:
            random_stream = block.new_stream()
        made = block.append(self.name, inputs, outputs, messages, random_stream=random_stream)
        if block.weak:
            block.note_weak(self.name, inputs, made)
        if self.signature.variadic_outputs:
            return cast(R, made)
        return cast(R, made[0] if len(made) == 1 else tuple(made))

    def _bind(
        self, block: Block, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Value | None], dict[str, Attribute]]:
        try:
            operands, attributes = self.signature.bind(args, kwargs)
            values = [self._value(block, position, operands) for position in range(len(operands))]
        except OpError as error:
            raise OpError(f"{_prefix(block)}{self.name}: {error}") from None
        return values, attributes

    def _value(self, block: Block, position: int, operands: list[Any]) -> Value | None:
        operand, name = operands[position], self.signature.input_name(position)
        if operand is STATE_MARK:
            operand = block.drawing_step() if self.random and name == "step" else block.state(name)
        elif not isinstance(operand, Value) and isinstance(operand, Real) and name in self.signature.numbers:
            number = int(operand) if isinstance(operand, Integral) else float(operand)
            operand = block.constant(self._dtype_for(operand, operands), number)
        if operand is None and name in self.signature.defaults:
            return None
        if not isinstance(operand, Value):
            may_be_left_out = self.signature.variadic or name in self.signature.defaults
            by_name = attribute_by_name(operand, self.signature.parameters) if may_be_left_out else ""
            raise OpError(f"{name}={_not_a_tensor(operand)}{by_name}")
        operand = block.taken(operand)
        return self._as_beside(operand, name, operands) if operand.name in block.weak else operand

    def _as_beside(self, operand: Value, name: str, operands: list[Any]) -> Value:
        """Return a setting, or a value computed from settings, cast to the float dtype of the other operands."""
        numbers = self.signature.numbers
        if name not in numbers:
            return operand
        for position, other in enumerate(operands):
            if not isinstance(other, Value) or self.signature.input_name(position) not in numbers:
                continue
            if other.name not in operand.block.weak and other.dtype in FLOATS and other.dtype != operand.dtype:
                return cast("Op[..., Value]", OPS["cast"])(operand, dtype=other.dtype)
        return operand

    def _dtype_for(self, number: Real, operands: list[Any]) -> str:
        """Return the dtype that a Python number takes: that of the first tensor among the operands."""
        for position, operand in enumerate(operands):
            if isinstance(operand, Value) and self.signature.input_name(position) in self.signature.numbers:
                return operand.dtype
        raise OpError(f"no tensor beside {number} gives it a dtype; make one with ops.full")

    def _infer(self, inputs: list[TensorType | None], attributes: dict[str, Attribute]) -> tuple[TensorType, ...]:
        for name, type in zip(self.signature.flat_input_names(len(inputs)), inputs, strict=True):
            if type is not None and type.dtype in HALVES and not self.halves:
                raise OpError(f"{name} is {type.dtype}, which is stored and moved only; cast it to float32")
        types = self.types(*inputs, **attributes)
        for type in types:
            if type.dtype in HALVES and not self.halves:
                raise OpError(
                    f"it does not make {type.dtype}, which is stored and moved only; make float32 and cast it"
                )
            for extent in type.shape:
                if isinstance(extent, int) and not 0 <= extent <= MAX_INT64:
                    raise OpError(f"its result would have an extent of {extent}")
        return types

    def _own_types(self, *inputs: TensorType | None, **attributes: Attribute) -> tuple[TensorType, ...]:
        """Return the types that the declared function infers, for operators of plugins."""
        block = Block()
        values = [None if type is None else Value(block, "", type) for type in inputs]
        declaration: Callable[..., TensorType | tuple[TensorType, ...]] = self.declaration
        made = declaration(*values, **self.signature.spelled(attributes))
        return (made,) if isinstance(made, TensorType) else tuple(made)

    def _checked_rule(self, rule: Callable[..., Any], what: str, more: set[str]) -> Callable[..., Any]:
        known = {*self.signature.inputs, *self.signature.outputs, *self.signature.attributes, *more}
        known |= {"random_stream"} if self.random else set()
        asked = set(rule_names(rule))
        if not asked <= known:
            raise OpError(f"the {what} of {self.name!r} asks for {sorted(asked - known)}; it may use {sorted(known)}")
        return rule

    def _described(self, block: Block, types: list[TensorType | None]) -> str:
        names = self.signature.flat_input_names(len(types))
        shown = ", ".join(f"{name}: {type}" for name, type in zip(names, types, strict=True) if type is not None)
        return f"{_prefix(block)}{self.name}({shown})"


class HasBlock(Protocol):
    """An object that ops can be appended to, such as a Program."""

    @property
    def block(self) -> Block:
        """The block under construction."""
        ...


def rule_names(rule: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters of a rule."""
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _prefix(block: Block) -> str:
    line = block.line()
    return f"{line}: " if line else ""


def _not_a_tensor(operand: object) -> str:
    """Return a short description of an operand that is no tensor, and the way to convert an array."""
    text = repr(operand)
    if len(text) > 60 or "\n" in text:
        text = f"<{type(operand).__name__}>"
    return f"{text} is not a tensor of a program" + (
        "; feed it, or keep it in a state" if hasattr(operand, "shape") else ""
    )


def _hashable(value: Attribute) -> object:
    return value.SerializeToString() if isinstance(value, pb.SmallTensor) else (type(value), value)
