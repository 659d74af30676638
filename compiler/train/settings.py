"""Names of other libraries for the settings of optimizers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from prograd_proto.argument_kinds import with_kinds
from prograd_proto.spelling import closest
from registry.errors import OpError

P = ParamSpec("P")
R = TypeVar("R")

_OTHER_NAMES: Final = {
    "lr": "rate",
    "min_lr": "min_rate",
    "metric": "monitor",
    "threshold": "min_delta",
    "learning_rate": "rate",
    "weight_decay": "decay",
    "eps": "epsilon",
    "betas": "beta1 and beta2",
    "beta_1": "beta1",
    "beta_2": "beta2",
    "grad_clip": "clip",
    "clipnorm": "clip",
}


def with_settings(optimizer: Callable[P, R]) -> Callable[P, R]:
    """Let a call with an unknown setting raise an error that names the known ones."""
    code = optimizer.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    checked = with_kinds(OpError, strictly=True)(optimizer)

    @wraps(optimizer)
    def call(*args: P.args, **settings: P.kwargs) -> R:
        for name in settings:
            if name not in known:
                other = _OTHER_NAMES.get(name, "")
                called = f"; here it is called {other}" if other.partition(" ")[0] in known else ""
                hint = called or closest(name, known) or f"; there are {', '.join(known)}"
                raise OpError(f"{optimizer.__name__}: there is no setting {name!r}{hint}")
        return checked(*args, **settings)

    return call
