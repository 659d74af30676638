"""The better direction of a metric, as far as its name tells."""

import re
from typing import Final, Literal

Best = Literal["min", "max"]

LOWER_IS_BETTER: Final = frozenset(
    ["loss", "losses", "error", "errors", "perplexity", "mae", "mse", "rmse", "mape", "nll", "bce", "divergence"]
)
"""Words of a metric's name by which lower values are better."""

HIGHER_IS_BETTER: Final = frozenset(
    ["accuracy", "acc", "precision", "recall", "sensitivity", "f1", "auc", "r2", "iou", "bleu"]
)
"""Words of a metric's name by which higher values are better."""


def best_by_name(name: str) -> Best | None:
    """Return "min" for the name of a loss or an error, "max" for that of an accuracy, None for any other name.

    The last word that is in one of the two sets decides: `f1_loss` is a loss. The number of `loss2` does not count.
    """
    for word in reversed(re.findall(r"[a-z0-9]+", name.lower())):
        for known in (word, word.rstrip("0123456789")):
            if known in LOWER_IS_BETTER:
                return "min"
            if known in HIGHER_IS_BETTER:
                return "max"
    return None
