"""Every kernel of the reference engine, by family; the list of imports is the table of contents.

Modules that kernels share:

chunks     elementwise kernels of many steps, a chunk at a time
depthwise  depthwise convolution
factors    factors of bfloat16, widened for products and added in blocks of the depth
moments    parts of updates that keep running means
single     functions of float32, made of those that NumPy has for vector registers
state_product products of a recurrent layer's states and weights, of bfloat16 too
sums       sums and running sums whose error does not grow with their length
time_steps the time steps of recurrent layers, and masks that leave steps out
windows    windows that slide over images: number of output positions, and the input under each tap
"""

from runtime.engines.reference.kernels import activation as activation
from runtime.engines.reference.kernels import adam as adam
from runtime.engines.reference.kernels import adaptive as adaptive
from runtime.engines.reference.kernels import attention as attention
from runtime.engines.reference.kernels import augment as augment
from runtime.engines.reference.kernels import conv as conv
from runtime.engines.reference.kernels import copy as copy
from runtime.engines.reference.kernels import ctc as ctc
from runtime.engines.reference.kernels import decomposition as decomposition
from runtime.engines.reference.kernels import diagonals as diagonals
from runtime.engines.reference.kernels import elementary as elementary
from runtime.engines.reference.kernels import fill as fill
from runtime.engines.reference.kernels import index as index
from runtime.engines.reference.kernels import integers as integers
from runtime.engines.reference.kernels import layer_norm as layer_norm
from runtime.engines.reference.kernels import linalg as linalg
from runtime.engines.reference.kernels import logic as logic
from runtime.engines.reference.kernels import loss as loss
from runtime.engines.reference.kernels import norm as norm
from runtime.engines.reference.kernels import order as order
from runtime.engines.reference.kernels import orthogonal as orthogonal
from runtime.engines.reference.kernels import pointwise as pointwise
from runtime.engines.reference.kernels import pool as pool
from runtime.engines.reference.kernels import quantization as quantization
from runtime.engines.reference.kernels import random as random
from runtime.engines.reference.kernels import ranks as ranks
from runtime.engines.reference.kernels import recurrent as recurrent
from runtime.engines.reference.kernels import reduce as reduce
from runtime.engines.reference.kernels import rounding as rounding
from runtime.engines.reference.kernels import sampling as sampling
from runtime.engines.reference.kernels import scan as scan
from runtime.engines.reference.kernels import scatter as scatter
from runtime.engines.reference.kernels import shape as shape
from runtime.engines.reference.kernels import shards as shards
from runtime.engines.reference.kernels import sparse as sparse
from runtime.engines.reference.kernels import special as special
from runtime.engines.reference.kernels import statistics as statistics
from runtime.engines.reference.kernels import transfer as transfer
from runtime.engines.reference.kernels import unfold as unfold
from runtime.engines.reference.kernels import update as update
from runtime.kernel import KERNELS as KERNELS
