"""Names that users of NumPy, ONNX and PyTorch try, and the names that this library has instead."""

from collections.abc import Iterable, Sequence
from typing import Final

from prograd_proto.spelling import closest_and_all


def no_attribute(name: str, known: Iterable[str]) -> str:
    """Return the sentence for an unknown attribute of an operator, with its name here or with all names."""
    known = list(known)
    here = [other for other in OTHER_ATTRIBUTES.get(name, ()) if other in known]
    hint = f"; here it is called {here[0]}" if here else closest_and_all(name, known)
    return f"there is no attribute {name!r}{hint}"


def too_many_tensors(inputs: Sequence[str], given: int, attributes: Iterable[str]) -> str:
    """Return the sentence for a call with more operands than the operator has inputs.

    The most frequent cause is an attribute given without its name.
    """
    tensors = f"{len(inputs)} tensor{'s' * (len(inputs) != 1)} ({', '.join(inputs)})" if inputs else "no tensors"
    first = next(iter(attributes), "")
    return f"takes {tensors}, not {given}; attributes go by name{f', as {first}=…' if first else ''}"


def attribute_by_name(operand: object, attributes: Iterable[str]) -> str:
    """Return the end of a sentence on an operand that is a number or a tuple, probably of an attribute; "" if not."""
    first = next(iter(attributes), "")
    plain = isinstance(operand, int | float | str | tuple)
    return f"; attributes go by name, as {first}=…" if plain and first else ""


METRICS: Final = (
    *("auc", "average_precision", "balanced_accuracy", "confusion_matrix", "f1", "mean_absolute_error"),
    *("mean_squared_error", "perplexity", "precision", "r2", "recall", "roc_curve", "root_mean_squared_error"),
    "top_k_accuracy",
)
"""Metrics of the library, which are no operators."""

OTHER_NAMES: Final = {
    **{name: f"metrics.{name}, after `from prograd import metrics`" for name in METRICS},
    "f1_score": "metrics.f1, after `from prograd import metrics`",
    "r2_score": "metrics.r2, after `from prograd import metrics`",
    "roc_auc_score": "metrics.auc, after `from prograd import metrics`",
    "adaptive_avg_pool1d": "ops.adaptive_avg_pool, for any number of axes",
    "adaptive_avg_pool2d": "ops.adaptive_avg_pool, for any number of axes",
    "adaptive_avg_pool3d": "ops.adaptive_avg_pool, for any number of axes",
    "adaptive_max_pool1d": "ops.adaptive_max_pool, for any number of axes",
    "adaptive_max_pool2d": "ops.adaptive_max_pool, for any number of axes",
    "adaptive_max_pool3d": "ops.adaptive_max_pool, for any number of axes",
    "amax": "ops.max",
    "amin": "ops.min",
    "arange": "ops.range",
    "attention": "ops.scaled_dot_product_attention, or layers.attention, which has weights",
    "arccos": "ops.acos",
    "arcsin": "ops.asin",
    "arctan": "ops.atan",
    "arctan2": "ops.atan2",
    "astype": "ops.cast",
    "avg_pool1d": "ops.avg_pool, for any number of axes",
    "avg_pool3d": "ops.avg_pool, for any number of axes",
    "bmm": "ops.matmul, or a @ b",
    "cat": "ops.concat",
    "clamp": "ops.clip",
    "concatenate": "ops.concat",
    "conv_transpose1d": "ops.conv_transpose, for any number of axes",
    "conv_transpose2d": "ops.conv_transpose, for any number of axes",
    "conv_transpose3d": "ops.conv_transpose, for any number of axes",
    "det": "ops.determinant",
    "depthwise_conv2d": "ops.depthwise_conv, for any number of axes",
    "dot": "ops.matmul, or ops.sum(a * b) for vectors",
    "dropout2d": "ops.feature_dropout",
    "expand": "ops.broadcast_to",
    "expand_dims": "ops.unsqueeze",
    "gammaln": "ops.lgamma",
    "index_select": "ops.gather",
    "inv": "ops.inverse",
    "kl": "ops.kl_divergence",
    "kl_div": "ops.kl_divergence",
    "l1": "ops.absolute_error",
    "l1_loss": "ops.absolute_error",
    "linear": "x @ w + b",
    "logdet": "ops.log_determinant",
    "masked_fill": "ops.where(mask, number, x)",
    "max_pool1d": "ops.max_pool, for any number of axes",
    "max_pool3d": "ops.max_pool, for any number of axes",
    "mod": "ops.remainder",
    "multi_head_attention": "layers.attention, which has weights",
    "moveaxis": "ops.transpose",
    "mse": "ops.squared_error",
    "mse_loss": "ops.squared_error",
    "multinomial": "ops.categorical",
    "multiply": "ops.mul, or a * b",
    "negative": "ops.neg",
    "nll_loss": "ops.nll",
    "ones": "ops.full.on(program)(shape=..., value=1)",
    "ones_like": "ops.full.on(program)(shape=..., value=1)",
    "pad_constant": "ops.pad",
    "permute": "ops.transpose",
    "power": "ops.pow, or a ** b",
    "rand": "ops.uniform.on(program)(shape=...)",
    "randn": "ops.normal.on(program)(shape=...)",
    "repeat_interleave": "ops.repeat",
    "scatter_elements": "ops.put_along_axis",
    "slogdet": "ops.log_determinant",
    "std": "ops.standard_deviation",
    "subtract": "ops.sub, or a - b",
    "swapaxes": "ops.transpose",
    "swish": "ops.silu",
    "take": "ops.gather",
    "var": "ops.variance",
    "vector_norm": "ops.norm",
    "view": "ops.reshape",
    "zeros": "ops.full.on(program)(shape=..., value=0)",
    "zeros_like": "ops.full.on(program)(shape=..., value=0)",
}
"""Replacement text by the other name of an operator."""

OTHER_ATTRIBUTES: Final = {
    "axes": ("axis", "batch_axes"),
    "dim": ("axis",),
    "dims": ("axis",),
    "eps": ("epsilon",),
    "dilations": ("dilation",),
    "fill_value": ("value",),
    "group": ("groups",),
    "keep_dims": ("keepdims",),
    "keepdim": ("keepdims",),
    "kernel_shape": ("window",),
    "kernel_size": ("window",),
    "maximum": ("max", "high"),
    "minimum": ("min", "low"),
    "negative_slope": ("alpha",),
    "num_classes": ("depth", "count"),
    "num_groups": ("groups",),
    "p": ("ratio", "dropout", "probability", "ord"),
    "pads": ("padding",),
    "perm": ("axis",),
    "slope": ("alpha",),
    "std": ("deviation",),
    "strides": ("stride",),
    "stride": ("strides",),
    "weight_decay": ("decay",),
}
"""Names of attributes by their other name; the first that the operator has is meant."""

_LATER: Final = "elements are there when the program runs, as in run.predict(x) or run.step(feeds, fetch=[name])"
OTHER_METHODS: Final = {
    "T": "write ops.transpose(x)",
    "backward": "write program.minimize(loss, adam()), or compiler.gradients",
    "copy": "a tensor of a program never changes, so none is needed",
    "detach": "write ops.stop_gradient(x)",
    "device": "everything runs on the CPU",
    "grad": "write compiler.gradients([loss], [x])",
    "item": _LATER,
    "mT": "write ops.transpose(x)",
    "ndim": "write x.rank",
    "numpy": _LATER,
    "requires_grad": "program.freeze says which parameters are not trained",
    "size": "write x.shape, or ops.size(x) for a scalar",
    "tolist": _LATER,
}
"""Replacement text by a method name of arrays and tensors; operators are found without this table."""
