"""Metrics of all rows of an epoch or an evaluation, exact for any sizes of the steps.

program.metrics(f1=metrics.f1(logits, labels), confusion=metrics.confusion_matrix(logits, labels))

metric      Metric: totals over rows, and the value computed from them; `summed` makes one of sums
classes     accuracy, balanced_accuracy, top_k_accuracy, confusion_matrix, precision, recall, f1, perplexity
ranking     auc, average_precision, roc_curve
regression  mean, mean_absolute_error, mean_squared_error, root_mean_squared_error, r2
"""

from compiler.train.metrics.classes import accuracy as accuracy
from compiler.train.metrics.classes import balanced_accuracy as balanced_accuracy
from compiler.train.metrics.classes import confusion_matrix as confusion_matrix
from compiler.train.metrics.classes import f1 as f1
from compiler.train.metrics.classes import perplexity as perplexity
from compiler.train.metrics.classes import precision as precision
from compiler.train.metrics.classes import recall as recall
from compiler.train.metrics.classes import top_k_accuracy as top_k_accuracy
from compiler.train.metrics.metric import Metric as Metric
from compiler.train.metrics.metric import Total as Total
from compiler.train.metrics.metric import summed as summed
from compiler.train.metrics.ranking import auc as auc
from compiler.train.metrics.ranking import average_precision as average_precision
from compiler.train.metrics.ranking import roc_curve as roc_curve
from compiler.train.metrics.regression import mean as mean
from compiler.train.metrics.regression import mean_absolute_error as mean_absolute_error
from compiler.train.metrics.regression import mean_squared_error as mean_squared_error
from compiler.train.metrics.regression import r2 as r2
from compiler.train.metrics.regression import root_mean_squared_error as root_mean_squared_error

_OTHER_NAMES = {
    "auc_pr": "average_precision",
    "average_precision_score": "average_precision",
    "balanced_accuracy_score": "balanced_accuracy",
    "mae": "mean_absolute_error",
    "mse": "mean_squared_error",
    "pr_auc": "average_precision",
    "rmse": "root_mean_squared_error",
    "roc_auc": "auc",
    "roc_auc_score": "auc",
}
"""Metrics by the names that other packages give them."""


def __getattr__(name: str) -> object:
    from prograd_proto.spelling import no_name

    if name.lower() in _OTHER_NAMES:
        raise AttributeError(f"prograd.metrics has no {name!r}; write metrics.{_OTHER_NAMES[name.lower()]}")
    raise no_name("prograd.metrics", name, __dir__())


def __dir__() -> list[str]:
    """Return the names that a notebook completes."""
    own = globals().items()
    return sorted(name for name, thing in own if callable(thing) and not name.startswith("_"))
