"""Optimizers: the update that each appends for a parameter, with its slots and rate.

Rates are numbers, settings or schedules. `decay` is either coupled (decay * w is added to the gradient) or decoupled (w
shrinks by rate * decay; Loshchilov and Hutter, 2019), as each optimizer states. `clip` limits the gradients of the
optimizer's parameters.

To add an optimizer:

1. A function in `compiler/train/optimizers.py`, or in a new file, that returns an `Optimizer`. Add it to the
   `__all__` of the file, so that `compiler` and `prograd` export it.
2. Add a new file to the families in `compiler/__init__.py`. A new update rule is an operator.
3. Its tests, which compare it with the formula as a hand-written loop, and its line in docs/training.md, which a
   test checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

from compiler.build.whole_numbers import require_whole
from compiler.train.clipping import Clip, require_clip
from compiler.train.schedules import Rate, Schedule, as_schedule
from compiler.train.settings import with_settings
from compiler.train.wrong_optimizers import wrong_optimizer
from prograd_proto import TensorType
from prograd_proto.settings import Interval
from prograd_proto.spelling import module_getattr
from registry import Block, Value, ops
from registry.errors import OpError
from registry.ops.fill import full
from registry.settings import Number, require_within

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "lazy",
    "lion",
    "look_ahead",
    "momentum",
    "nadam",
    "nesterov",
    "radam",
    "rmsprop",
    "sgd",
]
"""The names that `compiler` and `prograd` export."""


Decays = Literal["coupled", "decoupled", "by itself"]
"""The form of decay: added to the gradient, shrinking the parameter, or handled by the update itself."""


@dataclass(frozen=True)
class Slot:
    """A state that an optimizer keeps for a parameter.

    Attributes:
        name: name of the slot in the optimizer.
        initial: initial value of every element, or None for the parameter's own initial value.
        type: computes the slot's type from the parameter's; by default the same.
    """

    name: str
    initial: float | None = 0.0
    type: Callable[[TensorType], TensorType] = lambda type: type


@dataclass(frozen=True, repr=False)
class Optimizer:
    """An update and its settings.

    Attributes:
        update: called as update(w, dw, *slots, rate[, step], **attributes); returns the new w and slots.
        slots: returns the slots of the update for a parameter of that type.
        rate: learning rate.
        decay: weight decay.
        attributes: attributes of the update.
        needs_step: True if the update takes the number of earlier updates.
        clip: limits gradients before the update.
        decays: the form of a decay that is a setting, which cannot be an attribute.
    """

    update: Callable[..., Any]
    slots: Callable[[TensorType], Sequence[Slot]]
    rate: Schedule
    decay: Number
    attributes: dict[str, Any]
    needs_step: bool = False
    clip: Clip | None = None
    decays: Decays = "coupled"

    def __post_init__(self) -> None:
        require_clip(self.clip)
        if isinstance(self.decay, Value):
            require_within("decay", self.decay, Interval(least=0.0))

    def __repr__(self) -> str:
        name = (
            getattr(self.update, "name", "") or self.update.__qualname__.partition(".")[0]
        )  # an operator, or a function
        settings = self.attributes | {"decay": self.decay}
        return f"<Optimizer {name}: {', '.join(f'{key}={value}' for key, value in settings.items())}>"

    def apply(
        self,
        w: Value,
        dw: Value,
        slots: Sequence[Value],
        rate: Value,
        done: Callable[[], Value],
        *,
        decay_scale: float = 1.0,
    ) -> list[Value]:
        """Append the update of one parameter, and return the new w and slots.

        `done` appends the number of earlier updates.
        """
        more = [done()] if self.needs_step else []
        decay = self.decay * decay_scale if decay_scale not in (0.0, 1.0) else self.decay if decay_scale else 0.0
        if isinstance(decay, Value) and self.decays == "coupled":
            dw, decay = dw + decay * w, 0.0
        elif isinstance(decay, Value) and self.decays == "decoupled":
            w, decay = w - rate * decay * w, 0.0
        result = self.update(w, dw, *slots, rate, *more, decay=decay, **self.attributes)
        return [result] if isinstance(result, Value) else list(result)


def keeping(*names: str) -> Callable[[TensorType], Sequence[Slot]]:
    """Return slots of the parameter's type that are zero at first."""
    return lambda type: [Slot(name) for name in names]


@with_settings
def sgd(rate: Rate, *, decay: Number = 0.0, clip: Clip | None = None) -> Optimizer:
    """Return gradient descent: w - rate * (dw + decay * w)."""
    return Optimizer(ops.sgd, keeping(), as_schedule(rate), decay, {}, clip=clip)


@with_settings
def momentum(
    rate: Rate,
    *,
    momentum: float = 0.9,
    nesterov: bool = False,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return descent with a velocity: Polyak, 1964; Nesterov's form: Sutskever et al., 2013. Coupled decay."""
    attributes = dict(momentum=momentum, nesterov=nesterov)
    return Optimizer(ops.momentum, keeping("velocity"), as_schedule(rate), decay, attributes, clip=clip)


@with_settings
def nesterov(rate: Rate, *, momentum: float = 0.9, decay: Number = 0.0, clip: Clip | None = None) -> Optimizer:
    """Return gradient descent with Nesterov's momentum: Sutskever et al., 2013. Coupled decay."""
    attributes = dict(momentum=momentum, nesterov=True)
    return Optimizer(ops.momentum, keeping("velocity"), as_schedule(rate), decay, attributes, clip=clip)


@with_settings
def adam(
    rate: Rate = 1e-3,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    amsgrad: bool = False,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return Adam: Kingma and Ba, 2015, with coupled decay; `amsgrad`: Reddi et al., 2018."""
    attributes: dict[str, Any] = dict(beta1=beta1, beta2=beta2, epsilon=epsilon)
    schedule = as_schedule(rate)
    if amsgrad:
        return Optimizer(ops.amsgrad, keeping("m", "v", "largest"), schedule, decay, attributes, True, clip)
    return Optimizer(ops.adam, keeping("m", "v"), schedule, decay, attributes, True, clip)


@with_settings
def adamw(
    rate: Rate = 1e-3,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    amsgrad: bool = False,
    decay: Number = 0.01,
    clip: Clip | None = None,
) -> Optimizer:
    """Return Adam with decoupled decay: Loshchilov and Hutter, 2019; `amsgrad`: Reddi et al., 2018."""
    attributes: dict[str, Any] = dict(beta1=beta1, beta2=beta2, epsilon=epsilon)
    schedule = as_schedule(rate)
    if amsgrad:
        attributes["decoupled"] = True
        return Optimizer(
            ops.amsgrad, keeping("m", "v", "largest"), schedule, decay, attributes, True, clip, "decoupled"
        )
    return Optimizer(ops.adamw, keeping("m", "v"), schedule, decay, attributes, True, clip, "decoupled")


@with_settings
def adamax(
    rate: Rate = 2e-3,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return Adam by the largest gradient: Kingma and Ba, 2015, with coupled decay."""
    attributes = dict(beta1=beta1, beta2=beta2, epsilon=epsilon)
    return Optimizer(ops.adamax, keeping("m", "largest"), as_schedule(rate), decay, attributes, True, clip)


@with_settings
def nadam(
    rate: Rate = 2e-3,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    momentum_decay: float = 4e-3,
    decay: Number = 0.0,
    decoupled: bool = False,
    clip: Clip | None = None,
) -> Optimizer:
    """Return Adam with Nesterov's momentum: Dozat, 2016, with coupled decay unless `decoupled`."""

    def slots(type: TensorType) -> Sequence[Slot]:
        return [Slot("m"), Slot("v"), Slot("product", 1.0, lambda type: TensorType("float64", ()))]

    attributes: dict[str, Any] = dict(beta1=beta1, beta2=beta2, epsilon=epsilon)
    attributes |= dict(momentum_decay=momentum_decay, decoupled=decoupled)
    return Optimizer(ops.nadam, slots, as_schedule(rate), decay, attributes, True, clip, _decays(decoupled))


@with_settings
def radam(
    rate: Rate = 1e-3,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: Number = 0.0,
    decoupled: bool = False,
    clip: Clip | None = None,
) -> Optimizer:
    """Return rectified Adam: Liu et al., 2020, with coupled decay unless `decoupled`."""
    attributes: dict[str, Any] = dict(beta1=beta1, beta2=beta2, epsilon=epsilon, decoupled=decoupled)
    decays = _decays(decoupled)
    return Optimizer(ops.radam, keeping("m", "v"), as_schedule(rate), decay, attributes, True, clip, decays)


@with_settings
def adagrad(
    rate: Rate = 1e-2,
    *,
    rate_decay: float = 0.0,
    initial: float = 0.0,
    epsilon: float = 1e-10,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return descent by the sum of squares, which starts at `initial`: Duchi et al., 2011. Coupled decay."""
    attributes = dict(rate_decay=rate_decay, epsilon=epsilon)
    return Optimizer(
        ops.adagrad, lambda type: [Slot("total", initial)], as_schedule(rate), decay, attributes, True, clip
    )


@with_settings
def adadelta(
    rate: Rate = 1.0,
    *,
    rho: float = 0.9,
    epsilon: float = 1e-6,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return gradient descent in the units of the parameter: Zeiler, 2012. Coupled decay."""
    attributes = dict(rho=rho, epsilon=epsilon)
    return Optimizer(ops.adadelta, keeping("v", "change"), as_schedule(rate), decay, attributes, clip=clip)


@with_settings
def rmsprop(
    rate: Rate = 1e-2,
    *,
    alpha: float = 0.99,
    epsilon: float = 1e-8,
    momentum: float = 0.0,
    centred: bool = False,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return RMSprop: Tieleman and Hinton, 2012; `centred`: Graves, 2013. Coupled decay."""

    def update(w: Value, dw: Value, *more: Value, decay: float) -> list[Value]:
        *slots, rate = more
        velocity = [slots.pop()] if momentum else []
        scale: Any = ops.centred_rms_scale if centred else ops.rms_scale
        direction, *new = scale(w, dw, *slots, alpha=alpha, epsilon=epsilon, decay=decay)
        if not velocity:
            return [ops.sgd(w, direction, rate), *new]
        new_w, new_velocity = ops.momentum(w, direction, velocity[0], rate, momentum=momentum)
        return [new_w, *new, new_velocity]

    names = ["v", *(["mean"] if centred else []), *(["velocity"] if momentum else [])]
    return Optimizer(update, keeping(*names), as_schedule(rate), decay, {}, clip=clip)


@with_settings
def lion(
    rate: Rate = 1e-4,
    *,
    beta1: float = 0.9,
    beta2: float = 0.99,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return Lion, with steps of one size by the sign of a mean: Chen et al., 2023. Decoupled decay."""
    attributes = dict(beta1=beta1, beta2=beta2)
    return Optimizer(ops.lion, keeping("m"), as_schedule(rate), decay, attributes, clip=clip, decays="decoupled")


@with_settings
def look_ahead(optimizer: Optimizer, *, every: int = 5, share: float = 0.5) -> Optimizer:
    """Return an optimizer that moves `share` of the way to another one's result after `every` updates.

    Zhang et al., 2019. The slot `slow` has the parameter as it was after its last such move.
    """
    _require_optimizer("look_ahead", optimizer)
    require_whole("look_ahead", every=every)

    def update(w: Value, dw: Value, *more: Value, decay: float, **attributes: Any) -> list[Value]:
        *slots, slow, rate, step = more
        inner = replace(optimizer, decay=decay, attributes=attributes)
        new_w, *new_slots = inner.apply(w, dw, slots, rate, lambda: step)
        meets = ops.equal((step + 1) % every, 0)
        new_slow = ops.where(meets, slow + share * (new_w - slow), slow)
        return [ops.where(meets, new_slow, new_w), *new_slots, new_slow]

    def slots(type: TensorType) -> Sequence[Slot]:
        return [*optimizer.slots(type), Slot("slow", initial=None)]

    return replace(optimizer, update=update, slots=slots, needs_step=True, decays="by itself")


@with_settings
def lazy(optimizer: Optimizer) -> Optimizer:
    """Return an optimizer that leaves rows of parameters as they are where their gradient is 0, with their slots.

    Rows are those of the first axis of parameters of two axes or more, such as the words of an embedding and the inputs
    of a sparse first layer. A row that does not occur in a step neither moves nor decays, and its moments do not decay,
    whereas Adam would move it by what it remembers. Corrections count all updates, not those of the row, as SparseAdam
    of PyTorch does. Other parameters, and slots of other shapes than their parameter, are updated as usual.
    """
    _require_optimizer("lazy", optimizer)

    def update(w: Value, dw: Value, *more: Value, decay: float, **attributes: Any) -> list[Value]:
        *slots, rate, step = more
        new = replace(optimizer, decay=decay, attributes=attributes).apply(w, dw, slots, rate, lambda: step)
        if w.rank < 2:
            return new
        occurs = _rows_that_occur(dw)
        pairs = zip(new, (w, *slots), strict=True)
        return [ops.where(occurs, now, old) if old.shape == w.shape else now for now, old in pairs]

    return replace(optimizer, update=update, needs_step=True, decays="by itself")


def _require_optimizer(what: str, given: object) -> None:
    if not isinstance(given, Optimizer):
        raise OpError(f"{what}: {wrong_optimizer(given, __all__)}")


def _rows_that_occur(dw: Value) -> Value:
    """Return True for each row of a gradient that is not 0 in all its elements, bool[rows, 1, ...].

    A product computes the count: if updates were fused with a reduction, they could not overwrite states.
    """
    rows, *others = dw.shape
    ones = full.on(dw.block)(shape=(prod(others), 1), value=1.0, dtype=dw.dtype)
    sizes = ops.reshape(ops.abs(dw), shape=(rows, prod(others))) @ ones
    return ops.reshape(ops.not_equal(sizes, 0.0), shape=(rows, *(1 for _ in others)))


def _decays(decoupled: bool) -> Decays:
    return "decoupled" if decoupled else "coupled"


def rate_for(block: Block, rate: Value, w: Value, scale: float) -> Value:
    """Return the optimizer's rate in w's dtype, times the parameter's own scale."""
    scaled = rate if scale == 1.0 else rate * scale
    return scaled if scaled.dtype == w.dtype else ops.cast(scaled, dtype=w.dtype)


__getattr__ = module_getattr("prograd.optimizers", __all__)
