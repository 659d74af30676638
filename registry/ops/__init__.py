"""All operators, by family. Kernels and lowering rules have the same families.

activation     activation functions
adam           updates by Adam and its variants
adaptive       updates whose rate adapts to each element's gradients
arrange        flip, roll, repeat, stack and similar ops, composed of others
attention      attention of queries to values
augment        random changes of rows in training: flips, crops, colour, noise, cutout, mixup
conv           convolution of images, and its gradients
copy           casts, copies, and copies without a gradient
criteria       losses that are composed of other operators
ctc            connectionist temporal classification
decomposition  triangular factors, solutions of linear equations, inverses, determinants
deform         deformable convolution, composed of others
diagonals      diagonals and triangles of matrices
einsum         sums of products in Einstein notation, composed of others
elementary     reciprocals, logarithms, trigonometry
fill           constants, filled tensors, ranges, element counts
index          gather, scatter_add and one_hot: indices along one axis
integers       numbers of eight bits with a scale and a zero point, and exact products of them
layer_norm     normalisation of each element of a batch: layer, group, instance, RMS
linalg         products of matrices
logic          bitwise operations on integers, tests for NaN and infinities
loss           losses and accuracy that have kernels of their own
norm           softmax and batch normalisation
order          sorting, positions in the sorted order, largest elements
orthogonal     QR, singular values, eigenvalues of symmetric matrices, pseudo-inverses
pointwise      arithmetic, comparisons, selection
pool           pooling of images
positions      embedding lookup, rotary and sinusoidal positions, pixel shuffle
quantization   numbers of few bits in blocks that share a scale
random         uniform and normal numbers, dropout masks
recurrent      plain recurrent layers, GRU and LSTM
reduce         sums, products, means and extremes; broadcasting
resize         resampling of images
rounding       rounding, division with a remainder
sampling       random choices and integers, truncated normal numbers, variants of dropout
scan           running sums and products
scatter        gather_nd and scatter_nd: indices along several axes
selection      nonzero and unique elements, boxes that overlap little: rows whose number is data
shape          reshape, transpose, slice, pad, split, concat
shards         marks of the results that the shards of a batch have in common
sparse         products with rows of few elements, by positions and values
spatial        convolution and pooling over one to three axes, composed of `conv` and `pool`
special        the error function and the gamma functions
statistics     variance, norms, log of a sum of exponentials
transfer       moves between the arena and the file beside it
unfold         windows of images, and their sum
update         updates of plain optimizers: SGD, momentum
"""

# The star imports repeat constants that several families import.
# pyright: reportGeneralTypeIssues=false

from types import ModuleType
from typing import TYPE_CHECKING

from registry.control.control_op import CONTROL
from registry.op import OPS

# ruff: noqa: F403 - a new op in a family is public without a further edit
from registry.ops.activation import *
from registry.ops.adam import *
from registry.ops.adaptive import *
from registry.ops.arrange import *
from registry.ops.attention import *
from registry.ops.augment import *
from registry.ops.conv import *
from registry.ops.copy import *
from registry.ops.criteria import *
from registry.ops.ctc import *
from registry.ops.decomposition import *
from registry.ops.deform import *
from registry.ops.diagonals import *
from registry.ops.einsum import *
from registry.ops.elementary import *
from registry.ops.fill import *
from registry.ops.index import *
from registry.ops.integers import *
from registry.ops.layer_norm import *
from registry.ops.linalg import *
from registry.ops.logic import *
from registry.ops.loss import *
from registry.ops.norm import *
from registry.ops.order import *
from registry.ops.orthogonal import *
from registry.ops.pointwise import *
from registry.ops.pool import *
from registry.ops.positions import *
from registry.ops.quantization import *
from registry.ops.random import *
from registry.ops.recurrent import *
from registry.ops.reduce import *
from registry.ops.resize import *
from registry.ops.rounding import *
from registry.ops.sampling import *
from registry.ops.scan import *
from registry.ops.scatter import *
from registry.ops.selection import *
from registry.ops.shape import *
from registry.ops.shards import *
from registry.ops.sparse import *
from registry.ops.spatial import *
from registry.ops.special import *
from registry.ops.statistics import *
from registry.ops.transfer import *
from registry.ops.unfold import *
from registry.ops.update import *
from registry.table import SPELLED

for _name in [name for name, thing in globals().items() if isinstance(thing, ModuleType)]:
    del globals()[_name]  # removes family modules: ops.attention is the module
globals().update(OPS, **SPELLED)  # removes imports named like an operator, such as `math.prod`

from registry.control import cond as cond  # noqa: E402 - after the modules of families, one of which is named scan
from registry.control import map as map  # noqa: E402
from registry.control import scan as scan  # noqa: E402
from registry.control import while_loop as while_loop  # noqa: E402


def __dir__() -> list[str]:
    """Return the operators and functions that a notebook completes, without the imports of their modules."""
    return sorted([*OPS, *SPELLED, *CONTROL, "map"])


if not TYPE_CHECKING:  # type checkers know the names

    def __getattr__(name: str) -> object:
        from prograd_proto.spelling import closest
        from registry.other_names import OTHER_NAMES

        if name.startswith("__"):  # tools look these up in every module
            raise AttributeError(f"there is no operator {name!r}")
        hint = f"; write {OTHER_NAMES[name]}" if name in OTHER_NAMES else closest(name, [*OPS, *SPELLED])
        hint = hint or ("" if name.startswith("_") else "; dir(ops) and compiler ops list them")
        raise AttributeError(f"there is no operator {name!r}{hint}")
