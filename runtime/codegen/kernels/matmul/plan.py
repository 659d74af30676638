"""The partition of a product for registers and caches, from shapes and target.

Bits depend on `MAX_CHAIN_DEPTH` only: an element of the result is the sum, in order, of chains of multiply-adds along
blocks of the depth, wherever the tile is and whichever copy it reads. In a product of pairs of bfloat16, an element of
the depth is a pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from runtime.codegen.costs import (
    CONFLICTING_ROWS_PENALTY,
    PACKED_ELEMENT_CYCLES,
    UNPACKED_ELEMENT_CYCLES,
    chained_step_cycles,
    matrix_tile_step_cycles,
    tile_step_cycles,
)
from runtime.codegen.kernels.depth import UNROLLED_DEPTH_STEPS, PairForm
from runtime.codegen.kernels.matmul.shape import MOST_FEW_ROWS
from runtime.codegen.kernels.matrix_tiles import MAX_MATRIX_ROWS
from runtime.codegen.kernels.pair_chains import MAX_CHAINED_ROWS
from runtime.codegen.machine import NOMINAL_L1_BYTES, Target

MAX_CHAIN_DEPTH: Final = 256
"""Upper bound on a chain: a longer one loses digits, and the operands of a block of this depth fit into the caches."""

MAX_TILE_ROWS: Final = {
    (32, True): {1: 12, 2: 13, 3: 8, 4: 6},
    (16, True): {1: 8, 2: 6, 3: 4},
    (16, False): {1: 6, 2: 4, 3: 3},
}
"""Rows of a tile of each number of vectors that LLVM keeps in registers, by number of registers and presence of an FMA.

LLVM loads vectors of the next step ahead, so fewer fit than a count of registers suggests; a test reads the assembly.
"""


MAX_WIDENED_VECTORS: Final = {16: 2, 32: 4}
"""Upper bound on the vectors of a tile whose elements are widened, by the number of registers."""


def tile_rows(target: Target, *, of_pairs: bool) -> Mapping[int, int]:
    """Return the upper bounds on the rows of a tile by its vectors; `of_pairs` is True for pairs of bfloat16."""
    if of_pairs and target.has_matrix_tiles:
        return MAX_MATRIX_ROWS
    return MAX_TILE_ROWS[target.registers, target.fma]


def step_cycles(
    target: Target, rows: int, vectors: int, panel_cycles: float = 0.0, *, of_pairs: bool, copied_rows: int = 0
) -> float:
    """Return the cycles of a tile for each step of the depth; see `costs.tile_step_cycles`.

    `copied_rows` are those whose pairs are copied before AMX loads them.
    """
    if of_pairs and target.has_matrix_tiles:
        return matrix_tile_step_cycles(rows, vectors, copied_rows)
    return tile_step_cycles(rows, vectors, panel_cycles)


PAGE_BYTES: Final = 4096
"""Bytes within which the hardware prefetches: it follows addresses inside of a page."""

MIN_STREAMED_DEPTH: Final = 16
"""Least depth of a product whose right operand is read row by row: sums are stored and read again for a few rows."""

SUMS_GAP: Final = 16
"""Elements between rows of sums, so that they fall into different sets of the first-level cache."""

CONFLICT_STRIDE_BYTES: Final = 4096
"""Stride in bytes at which rows fall into the same sets of the first-level cache."""

MAX_CONFLICTING_ROWS: Final = 8
"""Number of rows at this stride that fit into the first-level cache: the ways of its sets; CPUs have 8 or more."""

MIN_CONFLICTING_COLUMNS: Final = 128
"""Least number of columns of a product for which rows at this stride are copied: each column tile reads them again."""


class MatmulPlan(NamedTuple):
    """The partition of a product.

    Attributes:
        rows: upper bound on the rows of a tile.
        vectors: vectors of a row of a tile.
        lanes: lanes of a vector.
        depths: number of blocks of the depth.
        depth: size of a block; the last may be smaller.
        block_rows: rows of the left operand that are copied at once.
        block_columns: columns of the right operand that are copied at once.
        pack_left, pack_right: True if blocks of the operands are copied.
        left_scratch, right_scratch: elements of memory for those copies.
        of_pairs: True if an element is a pair of bfloat16, and the depth a number of pairs.
        is_widened: True if copies have the elements of pairs as float32.
        is_chained: True if words of copies hold neighbours of a chain of `kernels.pair_chains`.
        is_even: True if all blocks of the depth have the same size, which is then a constant in their code.
        by_matrix_tiles: True for pairs that tiles of AMX multiply.
        is_streamed: True if the right operand is read row by row; then `right_scratch` is memory for sums.
        reads_pairs: True if pairs of the right operand are read as they lie along the depth; `left_scratch` is memory
            for the elements of the left one.
    """

    rows: int
    vectors: int
    lanes: int
    depths: int
    depth: int
    block_rows: int
    block_columns: int
    pack_left: bool
    pack_right: bool
    left_scratch: int
    right_scratch: int
    of_pairs: bool = False
    is_widened: bool = False
    is_chained: bool = False
    is_even: bool = False
    by_matrix_tiles: bool = False
    is_streamed: bool = False
    reads_pairs: bool = False

    @property
    def repeats_panels(self) -> bool:
        """True if all panels of a block of columns are read for a tile's rows before the next rows are."""
        return self.by_matrix_tiles and self.block_columns > self.width

    @property
    def chains_rest(self) -> bool:
        """True if the words of pairs behind whole groups of a block hold neighbours of a chain too."""
        return self.is_chained and self.is_even

    @property
    def pairs(self) -> PairForm | None:
        """The form of the pairs that a tile reads; None if elements are no pairs."""
        return PairForm(self.is_widened, self.is_chained, self.chains_rest) if self.of_pairs else None

    @property
    def elements(self) -> int:
        """Elements of a copy for each step of the depth."""
        return 2 if self.is_widened else 1

    @property
    def apart(self) -> tuple[int, int]:
        """Elements from row to row of a copy of the left operand, or from column to column."""
        return self.depth * self.elements + self.lanes, self.block_rows + self.lanes

    @property
    def panel_row(self) -> int:
        """Elements of a panel for each step of the depth."""
        return self.width * self.elements

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    @property
    def scratch(self) -> int:
        """Elements of memory that the product needs besides its operands; a multiple of 16."""
        return self.left_scratch + self.right_scratch


def plan_product(
    target: Target,
    bits: int,
    m: int,
    n: int,
    k: int,
    left: tuple[int, int],
    right: tuple[int, int],
    computed: tuple[bool, bool] = (False, False),
    *,
    of_pairs: bool = False,
    reads_pairs: bool = False,
) -> MatmulPlan:
    """Partition a product of m x k by k x n for registers and caches.

    Args:
        target: the machine.
        bits: of an element.
        m: rows of the result.
        n: its columns.
        k: the depth.
        left: strides of the left operand.
        right: strides of the right operand.
        computed: whether the left and the right operand are computed where they are packed, so that they are packed.
        of_pairs: True if an element is a pair of bfloat16.
        reads_pairs: True for few rows of pairs by an operand that is read as it lies, see `ProductShape.reads_pairs`.
    """
    if reads_pairs:
        return _plan_few_pairs(target, bits, m, n, k)
    if not of_pairs and is_streamed(bits, m, n, k, right):
        return _plan_streamed(target, bits, m, n, k, left, computed[0])
    return _plan_tiles(target, bits, m, n, k, left, right, computed, of_pairs=of_pairs)


def _plan_tiles(
    target: Target,
    bits: int,
    m: int,
    n: int,
    k: int,
    left: tuple[int, int],
    right: tuple[int, int],
    computed: tuple[bool, bool] = (False, False),
    *,
    of_pairs: bool,
) -> MatmulPlan:
    is_widened, is_chained = of_pairs and target.widens_pairs, of_pairs and target.chains_pairs
    elements = 2 if is_widened else 1
    item, lanes = bits // 8 * elements, target.lanes(bits)
    most = MAX_WIDENED_VECTORS[target.registers] if is_widened else None
    rows, vectors = tile_shape(target, lanes, m, n, of_pairs=of_pairs, is_chained=is_chained, max_vectors=most)
    width = vectors * lanes
    depths, depth = max(-(-k // MAX_CHAIN_DEPTH), 1), depth_of_block(k)
    pack_right = k > 0 and (computed[1] or right[1] != 1 or (n > width and packing_pays(m, right[0] * item)))
    is_far = pack_right and n >= 4 * width and m * k * item >= target.l2_bytes  # else it stays near
    pack_left = is_far or (k > 0 and (computed[0] or is_widened or is_chained or rows_conflict(m, n, left, item)))
    block_columns = n if pack_left else width  # a computed block is packed once for all columns
    if pack_right:
        block_columns = _block(n, target.l2_bytes // 2 // (depth * item), width)
    copied_bytes = NOMINAL_L1_BYTES if is_widened else target.l2_bytes // 8  # widened rows stay in the nearest cache
    block_rows = _block(m, copied_bytes // (depth * item), rows) if pack_left else m
    return MatmulPlan(
        rows,
        vectors,
        lanes,
        depths,
        depth,
        block_rows,
        block_columns,
        pack_left,
        pack_right,
        _left_scratch(block_rows, depth * elements, lanes, left) if pack_left else 0,
        _up(_up(block_columns, width) * depth * elements, 16) if pack_right else 0,
        of_pairs,
        is_widened,
        is_chained,
        k <= depth or k % depth == 0,
        of_pairs and target.has_matrix_tiles,
    )


def is_streamed(bits: int, m: int, n: int, k: int, right: tuple[int, int]) -> bool:
    """Return True for few rows times a matrix whose rows have at least a page, which is read once, row by row."""
    return m <= MOST_FEW_ROWS and k >= MIN_STREAMED_DEPTH and right[1] == 1 and n * bits // 8 >= PAGE_BYTES


def _plan_few_pairs(target: Target, bits: int, m: int, n: int, k: int) -> MatmulPlan:
    """Partition a product of few rows of pairs: a vector of columns goes over the whole depth."""
    lanes, depths, copied = target.lanes(bits), -(-k // MAX_CHAIN_DEPTH), _up(2 * m * k, 16)
    return MatmulPlan(
        m, 1, lanes, depths, depth_of_block(k), m, n, True, False, copied, 0, of_pairs=True, reads_pairs=True
    )


def _plan_streamed(
    target: Target, bits: int, m: int, n: int, k: int, left: tuple[int, int], is_computed: bool
) -> MatmulPlan:
    """Partition a product whose right operand is read row by row: its sums stay in the nearest cache."""
    lanes, depth = target.lanes(bits), depth_of_block(k)
    columns = _block(n, max(NOMINAL_L1_BYTES // 3 // (m * bits // 8), PAGE_BYTES * 8 // bits), lanes)
    copied = _left_scratch(m, depth, lanes, left) if is_computed else 0
    sums = _up(m * (columns + SUMS_GAP), 16)
    depths = max(-(-k // MAX_CHAIN_DEPTH), 1)
    return MatmulPlan(m, 1, lanes, depths, depth, m, columns, is_computed, False, copied, sums, is_streamed=True)


def _left_scratch(rows: int, depth: int, lanes: int, left: tuple[int, int]) -> int:
    """Return the elements of a copy of the left operand; AMX copies pairs by rows, whatever the strides are."""
    by_rows, by_columns = rows * (depth + lanes), (rows + lanes) * depth
    return _up(by_rows if left[1] == 1 else max(by_rows, by_columns), 16)


def depth_of_block(k: int) -> int:
    """Return the size of the blocks of a depth; the last block may be smaller."""
    return _up(-(-k // -(-k // MAX_CHAIN_DEPTH)), UNROLLED_DEPTH_STEPS) if k > MAX_CHAIN_DEPTH else k


def plan_rows(
    target: Target,
    bits: int,
    m: int,
    n: int,
    k: int,
    left: tuple[int, int],
    right: tuple[int, int],
    is_computed: bool,
    *,
    of_pairs: bool,
) -> MatmulPlan:
    """Partition some rows of a large product, whose right operand is packed into panels already.

    A left operand is packed if its columns are contiguous, as its rows would evict each other from the nearest cache,
    and if it is computed.
    """
    plan = _plan_tiles(target, bits, m, n, k, left, right, of_pairs=of_pairs)
    copies = left[1] != 1 or is_computed or plan.is_widened or plan.is_chained or rows_conflict(m, n, left, bits // 8)
    columns = n if is_computed and not plan.pack_right else plan.block_columns
    return plan._replace(
        block_rows=m,
        block_columns=columns,
        pack_left=copies,
        pack_right=False,
        left_scratch=_left_scratch(m, plan.depth * plan.elements, plan.lanes, left) if copies else 0,
        right_scratch=0,
    )


def tile_shape(
    target: Target,
    lanes: int,
    m: int,
    n: int,
    *,
    of_pairs: bool = False,
    is_chained: bool = False,
    max_vectors: int | None = None,
) -> tuple[int, int]:
    """Return rows and vectors of the tile that takes the fewest cycles for each step of the depth."""
    costs = tile_costs(target, lanes, m, n, of_pairs=of_pairs, is_chained=is_chained)
    fitting = [shape for shape in costs if max_vectors is None or shape[1] <= max_vectors]
    return min(fitting, key=lambda shape: costs[shape])


def tile_cycles(target: Target, lanes: int, m: int, n: int) -> float:
    """Return the cycles of the best tile for each step of the depth."""
    return min(tile_costs(target, lanes, m, n).values())


def tile_costs(
    target: Target, lanes: int, m: int, n: int, *, of_pairs: bool = False, is_chained: bool = False
) -> dict[tuple[int, int], float]:
    """Return the cycles for each step of the depth, by rows and vectors of tiles.

    A step loads a vector for each of its columns and an element for each of its rows, and multiplies and adds once for
    each pair; with two units for either, and a latency of four cycles until a sum can be used again.
    """
    costs: dict[tuple[int, int], float] = {}
    bounds = MAX_CHAINED_ROWS if is_chained else tile_rows(target, of_pairs=of_pairs)
    for vectors, most in bounds.items():
        columns, tiles = -(-n // (vectors * lanes)), -(-m // most)
        rows = -(-m // tiles)
        step = step_cycles(target, rows, vectors, of_pairs=of_pairs)
        step = chained_step_cycles(rows, vectors) if is_chained else step
        costs[rows, vectors] = columns * tiles * step
    return costs


def packing_pays(m: int, row_bytes: int) -> bool:
    """Return True if copying an element of the right operand takes at most the cycles that `m` rows lose without it.

    `row_bytes` are those from row to row of the operand.
    """
    conflicts = row_bytes % CONFLICT_STRIDE_BYTES == 0
    in_place = m * UNPACKED_ELEMENT_CYCLES * (CONFLICTING_ROWS_PENALTY if conflicts else 1)
    return in_place >= PACKED_ELEMENT_CYCLES


def rows_conflict(m: int, n: int, left: tuple[int, int], item: int) -> bool:
    """Return True if the rows of a tile evict each other from the nearest cache, so often that copying them pays."""
    is_aligned = left[1] == 1 and left[0] * item % CONFLICT_STRIDE_BYTES == 0
    return is_aligned and m > MAX_CONFLICTING_ROWS and n >= MIN_CONFLICTING_COLUMNS


def shares(total: int, most: int) -> list[tuple[int, int]]:
    """Return equal parts of at most `most`: sizes that differ by one at most, and the number of each."""
    parts = -(-total // most)
    size, rest = divmod(total, parts)
    return [(size + 1, rest), (size, parts - rest)] if rest else [(size, parts)]


def _block(total: int, most: int, multiple: int) -> int:
    """Return an equal share of the total of at most `most`, as a multiple."""
    most = max(most // multiple, 1) * multiple
    parts = -(-total // most)
    return min(_up(-(-total // parts), multiple), total)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
