"""Products of matrices: one generator for single and batched products, with either operand transposed.

matrix    an operand: in memory with two strides, computed where it is packed, or pairs of bfloat16
shape     a product as matrices, and decisions by its sizes
plan      the partition of a product for registers and caches, from shapes and target
tile      a tile of two matrices, by the micro-kernel of `kernels.tiles`
packing   copies of blocks of operands, which the tile reads without conflicts
streamed  few rows times a right operand that is read row by row
few_pairs  few rows of pairs times a right operand that is read along the depth
loops     the loops around the tile
"""

from runtime.codegen.kernels.matmul.loops import PrefetchedOperand as PrefetchedOperand
from runtime.codegen.kernels.matmul.loops import in_shares as in_shares
from runtime.codegen.kernels.matmul.loops import in_tiles as in_tiles
from runtime.codegen.kernels.matmul.loops import product as product
from runtime.codegen.kernels.matmul.loops import stored as stored
from runtime.codegen.kernels.matmul.matrix import ComputedMatrix as ComputedMatrix
from runtime.codegen.kernels.matmul.matrix import Matrix as Matrix
from runtime.codegen.kernels.matmul.matrix import Operand as Operand
from runtime.codegen.kernels.matmul.matrix import PairedMatrix as PairedMatrix
from runtime.codegen.kernels.matmul.matrix import words as words
from runtime.codegen.kernels.matmul.packing import packed_right as packed_right
from runtime.codegen.kernels.matmul.plan import MatmulPlan as MatmulPlan
from runtime.codegen.kernels.matmul.plan import plan_product as plan_product
from runtime.codegen.kernels.matmul.plan import plan_rows as plan_rows
from runtime.codegen.kernels.matmul.plan import tile_cycles as tile_cycles
