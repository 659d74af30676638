"""Every kernel of the reference engine, by family. The list is the table of contents."""

from runtime.kernel import KERNELS as KERNELS
from runtime.kernels import activation as activation
from runtime.kernels import conv as conv
from runtime.kernels import copy as copy
from runtime.kernels import decomposition as decomposition
from runtime.kernels import diagonals as diagonals
from runtime.kernels import elementary as elementary
from runtime.kernels import fill as fill
from runtime.kernels import index as index
from runtime.kernels import linalg as linalg
from runtime.kernels import logic as logic
from runtime.kernels import loss as loss
from runtime.kernels import norm as norm
from runtime.kernels import order as order
from runtime.kernels import pointwise as pointwise
from runtime.kernels import pool as pool
from runtime.kernels import random as random
from runtime.kernels import reduce as reduce
from runtime.kernels import rounding as rounding
from runtime.kernels import scan as scan
from runtime.kernels import scatter as scatter
from runtime.kernels import shape as shape
from runtime.kernels import special as special
from runtime.kernels import statistics as statistics
from runtime.kernels import unfold as unfold
from runtime.kernels import update as update
