"""Callbacks of a training.

    from prograd.callbacks import EarlyStopping

    run.train(data=(x, y), validation_split=0.2, epochs=100, callbacks=[EarlyStopping(patience=5)])

docs/training.md has examples of callbacks of your own.
"""

from prograd.found_packages import require_visible

require_visible("runtime")

from runtime.runs.watching.callbacks import Callback as Callback
from runtime.runs.watching.callbacks import EarlyStopping as EarlyStopping
from runtime.runs.watching.callbacks import ReduceOnPlateau as ReduceOnPlateau
from runtime.sinks.logger import MlflowLogger as MlflowLogger
from runtime.sinks.logger import TensorBoardLogger as TensorBoardLogger
from runtime.sinks.logger import WandbLogger as WandbLogger

__all__ = ["Callback", "EarlyStopping", "MlflowLogger", "ReduceOnPlateau", "TensorBoardLogger", "WandbLogger"]


def __getattr__(name: str) -> object:
    from prograd_proto.spelling import no_name

    other = {"ReduceLROnPlateau": "ReduceOnPlateau", "ModelCheckpoint": "run.train(checkpoint='folder', keep_best=3)"}
    if name in other:
        raise AttributeError(f"there is no {name!r} in prograd.callbacks; write {other[name]}")
    raise no_name("prograd.callbacks", name, __all__)
