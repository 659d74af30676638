"""Lowering rules: how an operator becomes code, one family a file, named as the families of the reference kernels.

rule        the kinds of rules, and the table of rules by operator
decomposition rules that replace an op by several others
pointwise   arithmetic, comparisons, selection
elementary  exponentials, logarithms and similar functions
activation  activations
logic       bits, and classes of floats
rounding    rounding to whole numbers; division with a remainder
sparse      products with rows of few elements, by positions and values
special     the error functions and the gamma functions
copy        casts and broadcasts
fill        tensors computed from indices alone, triangles of matrices
random      random numbers, dropout
quantization numbers of few bits in blocks
integers    numbers of eight bits with a scale, and exact products of them
sampling    choices by random numbers
augment     the choice between training and prediction
update      sgd, momentum
adam        Adam and similar updates
adaptive    Adagrad, Adadelta, Lion, RMSprop
products    products of matrices
attention   attention and its gradient
conv        convolutions and their gradients
pool        maxima and means of windows, and their gradients
norm        softmax and batch normalisation
layer_norm  layer, RMS and group normalisation
statistics  variances, deviations, norms, logarithms of sums of exponentials
loss        losses and accuracy
recurrent   recurrent layers and their gradients
ctc         connectionist temporal classification, and its gradient
order       indices of maxima and minima
one_hot     one-hot vectors of indices
reductions  sums, products, means, extremes and logical reductions along axes
index       rows selected by index tensors: read, added to, counted
lookup      positions that index tensors select
scatter     rows selected by several indices each
scan        running sums and products, linear recurrences
sorting     sorting, the largest and the smallest elements
radix_sort  sorting of long rows, digit by digit
unfold      windows of images as rows, and back
shape       the same elements in another arrangement

`RULES` is filled when this package is imported. An op without a rule runs as its NumPy kernel.
"""

from importlib import import_module
from pkgutil import iter_modules

from runtime.codegen.kernels.indices import ALL_AXES as ALL_AXES
from runtime.codegen.kernels.indices import Indices as Indices
from runtime.codegen.kernels.registers import constant as constant
from runtime.codegen.kernels.registers import in_memory as in_memory
from runtime.codegen.kernels.registers import in_register as in_register
from runtime.codegen.kernels.registers import register_type as register_type
from runtime.codegen.kernels.steps import KernelContext as KernelContext
from runtime.codegen.kernels.steps import KernelStep as KernelStep
from runtime.codegen.kernels.steps import KernelSteps as KernelSteps
from runtime.codegen.kernels.steps import Prepack as Prepack
from runtime.codegen.kernels.steps import RowTiles as RowTiles
from runtime.codegen.rules.decomposition import DecompositionBuilder as DecompositionBuilder
from runtime.codegen.rules.decomposition import SymbolicTensor as SymbolicTensor
from runtime.codegen.rules.rule import RULES as RULES
from runtime.codegen.rules.rule import CustomKernel as CustomKernel
from runtime.codegen.rules.rule import Decomposition as Decomposition
from runtime.codegen.rules.rule import Moment as Moment
from runtime.codegen.rules.rule import Pointwise as Pointwise
from runtime.codegen.rules.rule import Product as Product
from runtime.codegen.rules.rule import Reduction as Reduction
from runtime.codegen.rules.rule import Rule as Rule
from runtime.codegen.rules.rule import is_random as is_random
from runtime.codegen.rules.rule import rule_of as rule_of

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
