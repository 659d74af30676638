"""The cost model: the time of kernels in cycles, on a machine described by a few measured parameters.

A pass of lowering that has several ways to compute a result prices each way here and takes the cheapest. All times are
cycles of one core; `CYCLE_NANOSECONDS` converts them. `benchmarks/costs.py` measures every parameter again and prints
it beside the value in this file, with the ratio of the two.

The parameters are constants of this file, and nothing is measured at run time: a price depends on shapes and on the
instruction set only, so all machines with this instruction set take the same decisions and get the same bits. Bounds,
`MIN_…` and `MAX_…`, are chosen and not measured.

To add a parameter, or a variant of a kernel:

1. A parameter is a constant with its docstring in `runtime/codegen/costs.py`: cycles, or a factor of cycles. No
   other file of `runtime/codegen/` has times.
2. The function that measures it in `benchmarks/costs.py`, registered by `@measures("NAME")`.
   `tests/house/test_costs.py` compares the names. Bounds (`MIN_…`, `MAX_…`) are chosen, so nothing measures them.
3. A variant of a convolution is a class with `applies`, `cycles` and `steps` in `runtime/codegen/kernels/conv/`,
   and an entry in a list of `variants.py` there (docs/decisions/0042-choose-variants-by-price.md).
4. A changed price may choose a variant that adds in another order, and so change bits: `pytest
   tests/native/whole/test_bits.py`, and the hashes of the examples.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.board import MAX_GROUPS, THREADS_OF_GROUP
from runtime.codegen.machine import MATRIX_ROWS, Target

CYCLE_NANOSECONDS: Final = 0.4
"""Nanoseconds of a cycle at 2.5 GHz. Measured by a chain of dependent additions."""

# Multiply-adds of vectors.

MULTIPLY_ADDS_PER_CYCLE: Final = 2
"""Vector multiply-adds that a core starts in a cycle. Measured by independent chains of them in registers."""

OPERAND_LOADS_PER_CYCLE: Final = 1.8
"""Vectors and broadcast elements that a core loads from the first-level cache in a cycle, beside multiply-adds."""

MULTIPLY_ADD_LATENCY_CYCLES: Final = 4
"""Cycles until the result of a multiply-add can be an operand. Measured by one chain of them."""

UNFUSED_MULTIPLY_ADD_PENALTY: Final = 2
"""Slowdown of a multiply-add by an instruction set without FMA, where it is two instructions."""

VECTOR_MULTIPLY_ADD_CYCLES: Final = 0.625
"""Cycles of a vector multiply-add in a whole kernel: four fifths of the peak. Measured by a product of 512 x 512."""

DOT_PRODUCT_CYCLES: Final = 0.1
"""Cycles of a multiply-add of a product with one column. Measured by a product of 4096 x 512 with a vector."""

CELL_CYCLES: Final = 1.0
"""Cycles of a preactivation in a recurrent cell, after its product. Measured by a GRU of few states."""

SCORE_CYCLES: Final = 0.25
"""Cycles of a score of attention in the softmax, beside both products. Measured by attention of short heads."""

# Products of bfloat16 by AMX, whose tile registers have 16 rows of 16 pairs, or of 16 columns.

MATRIX_ROW_CYCLES: Final = 1.0
"""Cycles of a row of the product of two tile registers. Measured by a product whose operands are in the near caches."""

MATRIX_PANEL_ROW_CYCLES: Final = 1.3
"""Cycles in which a row of the right operand arrives in a tile register from the second-level cache."""

MATRIX_COPIED_ROW_CYCLES: Final = 1.5
"""Cycles in which a row of the left operand is copied, because the rows of a register are not equally far apart."""

MATRIX_REGISTER_CYCLES: Final = 2.0
"""Cycles of a sum in a tile register: its 16 rows are stored once, and loaded, for 16 groups of the depth."""

CHAINED_CYCLES_1: Final = 1.4
CHAINED_CYCLES_2: Final = 1.08
CHAINED_CYCLES_3: Final = 1.02
CHAINED_CYCLES_4: Final = 1.03
"""Cycles of an instruction for pairs in a tile of one to four vectors that keeps its sums in registers."""

# Memory. The parameters for elements hold for float32.

L2_PANEL_BYTES_PER_CYCLE: Final = 12
"""Bytes of a filter's panel that arrive from the second-level cache in a cycle, beside multiply-adds."""

L2_BYTES_PER_CYCLE: Final = 40
"""Bytes of weights that arrive from the second-level cache in a cycle, if a kernel only waits for them."""

PACKED_ELEMENT_CYCLES: Final = 0.5
"""Cycles of an element of an operand that is copied into panels. Measured by the packing step of large products."""

UNPACKED_ELEMENT_CYCLES: Final = 1 / 192
"""Cycles of an element of a right operand that is read in place instead of from panels, for each row of the result."""

RESULT_CYCLES: Final = 0.25
"""Cycles of an element of a product's result, beside its multiply-adds. Measured by products of depth 4."""

RIGHT_OPERAND_CYCLES: Final = 0.05
"""Cycles of an element of the right operand of a product that is read in place for the first time."""

UPDATED_ELEMENT_CYCLES: Final = 2.5
"""Cycles of an element of a gradient of weights, and of the three states that its update reads and writes."""

PARTIAL_SUM_CYCLES: Final = 0.25
"""Cycles of an element of a partial sum that is added to those of other parts."""

REMOTE_PARTIAL_SUM_CYCLES: Final = 1.0
"""Cycles of an element of a partial sum, half of which another core wrote."""

COPIED_BYTE_CYCLES: Final = 0.075
"""Cycles of a byte of a line that is copied. Measured by a concatenation of long rows."""

COPIED_LINE_CYCLES: Final = 2.5
"""Cycles of a line that is copied, beside its bytes. Measured by a concatenation of short rows."""

FEED_BYTE_CYCLES: Final = 0.125
"""Cycles of a byte of a row that is copied into a feed; it comes from memory."""

GATHERED_ELEMENT_CYCLES: Final = 1.5
"""Cycles of an element that is copied by itself. Measured by a slice with a stride."""

TRANSPOSED_ROW_CYCLES: Final = 5.0
"""Cycles of a vector of a square that is transposed in registers. Measured by a transpose."""

INDEXED_ROW_CYCLES: Final = 5.0
"""Cycles of a row that an index selects, beside its elements. Measured by an embedding of short rows."""

TABLE_ELEMENT_CYCLES: Final = 0.8
"""Cycles of an element that a byte selects in a table of 256, beside its bytes. Measured by a gather."""

SPREAD_ELEMENT_CYCLES: Final = 0.75
"""Cycles of an element of windows that are laid out or added up. Measured by an unfold."""

READ_BYTE_CYCLES: Final = 0.125
"""Cycles of a byte that is read from beyond the near caches, in order."""

WRITTEN_BYTE_CYCLES: Final = 0.25
"""Cycles of a byte that is written beyond the near caches; its cache line is read first."""

# Loops over elements.

INSTRUCTION_CYCLES: Final = 0.5
"""Cycles of a vector instruction of a pointwise expression. Measured by polynomials."""

KEPT_VECTOR_CYCLES: Final = 3.0
"""Cycles in which a vector is stored in the first-level cache and loaded again."""

STORED_VECTOR_CYCLES: Final = 12.0
"""Cycles in which a vector is stored beyond the near caches and loaded again."""

ELEMENT_CYCLES: Final = 0.15
"""Cycles of an element, for each node of a group and each of two operands. Measured by additions in cache."""

ROW_ELEMENT_CYCLES: Final = 0.25
"""Cycles of an element of a group that goes over rows several times. Measured by a softmax."""

GATED_ELEMENT_CYCLES: Final = 1.25
"""Cycles of an element of a gated activation. Measured by `glu`."""

SCANNED_ELEMENT_CYCLES: Final = 3.75
"""Cycles of a step of a scan, each of which waits for the one before. Measured by a cumulative sum."""

SORTED_ELEMENT_CYCLES: Final = 3.75
"""Cycles of an element in a pass of a sort. Measured by the radix sort of a row."""

CTC_VECTOR_CYCLES: Final = 75.0
"""Cycles of a vector of labels in a time step of CTC. Measured by the loss without its gradient."""

# Convolutions and pooling.

DEPTHWISE_TAP_CYCLES: Final = 0.75
"""Cycles of a tap of a vector of channels, each with its own filter. Measured by a depthwise convolution."""

POOLED_TAP_CYCLES: Final = 1.25
"""Cycles of a tap of a vector of channels that are pooled. Measured by a max pooling."""

FOLDED_PART_CYCLES: Final = 0.7
"""Cycles in which a part of a pixel is added to a vector of results. Measured by a convolution of 5 x 5."""

LINE_LOOP_CYCLES: Final = 10
"""Cycles of a loop over a line of pixels, beside its body."""

COPIED_VECTOR_CYCLES: Final = 2
"""Cycles of a vector of a line that is copied with its border."""

SCATTERED_BYTE_CYCLES: Final = 0.25
"""Cycles of a byte of a filter that is read from memory in panels, out of its order."""

STREAMED_WEIGHT_CYCLES: Final = 0.4
"""Cycles of an element of a filter that is read from memory in order. Measured by a filter beyond the caches."""

PIXEL_TRANSFORM_CYCLES: Final = 60
"""Cycles in which Winograd's method transforms a vector of channels of a tile."""

OUTPUT_TRANSFORM_CYCLES: Final = 40
"""Cycles in which Winograd's method transforms a vector of products of a tile to results."""

CACHED_FILTER_TRANSFORM_CYCLES: Final = 100
"""Cycles in which Winograd's method transforms a vector of a filter, if all transformed filters stay in the cache."""

UNCACHED_FILTER_TRANSFORM_CYCLES: Final = 180
"""Cycles of the same if they do not stay in the cache."""

TRANSPOSED_FILTER_CYCLES: Final = 60
"""Additional cycles of the same if the filter's channels are exchanged."""

UNCACHED_FILTER_BYTES_PER_CYCLE: Final = 8
"""Bytes of transformed filters that are read in a cycle, if they do not stay in the cache."""

GRADIENT_TRANSFORM_CYCLES: Final = 120
"""Cycles in which Winograd's method transforms a vector of a filter's gradient back."""

PART_GRADIENT_CYCLES: Final = 3
"""Cycles in which a vector of a filter's gradient, at one position and of one part, is added to those of others."""

# Effects on whole kernels, as factors of their cycles.

MIN_TIME_SAVED_PER_STATE_BYTES: Final = 0.01
"""Price of memory for prepacked values: as many bytes as all states have cost this share of the step's cycles."""

SHARED_PANELS_GAIN: Final = 0.0625
"""Cycles saved if all work items share one copy of the panels, as a share of the product's multiply-add cycles."""

CONFLICTING_ROWS_PENALTY: Final = 2.0
"""Slowdown of a product whose right operand is read in place, if its rows conflict in the first-level cache."""

REMOTE_CACHE_PENALTY: Final = 1.3
"""Slowdown of a product that reads data that another core wrote."""

MAX_UNSPLIT_SLOWDOWN: Final = 1.65
"""Bound on the slowdown of a phase that waits for one work item, on two threads which share other work."""

MAX_LAST_PART_SHARE: Final = 0.1
"""Upper bound on the time that threads wait for the last part, as a share of the cycles of one part."""

SEPARATE_TAPS_GAIN: Final = 0.97
"""Cycles of a filter's gradient tap by tap, which omits the border, relative to tiles of several taps."""

TWO_TILE_SIZES_PENALTY: Final = 1.03
"""Slowdown of a loop nest with tiles of two sizes."""

GROUPED_TILE_PENALTY: Final = 2.0
"""Slowdown of tiles of a convolution in groups: they are narrow, and their sums are short."""

MAX_WIDE_TILE_SLOWDOWN: Final = 1.1
"""Bound on the slowdown of a tile of more vectors, whose lines of results are longer."""

WINOGRAD_PENALTY: Final = 1.1
"""Slowdown of Winograd's method by its passes over scratch memory, which its parts do not show."""

WINOGRAD_OF_PAIRS_PENALTY: Final = 0.9
"""The same for pairs of bfloat16, relative to a direct convolution of pairs, whose price leaves out more."""

STEPS_PER_TILE: Final = 4
"""Steps of the depth that take as long as clearing the sums of a tile and storing them."""

STEPS_PER_ADDED_TILE: Final = 8
"""Steps of the depth that take as long as loading the sums of a tile, and storing them."""

# Threads.

PANEL_STEP_CYCLES: Final = 131_072
"""Cycles of a kernel step that copies panels which all threads need: they wait for each other, and for the copies."""

BROKEN_CHAIN_CYCLES: Final = 2048
"""Cycles that a product loses if rows of its left operand are not in the cache of the thread that reads them."""

CHUNK_CYCLES: Final = 125
"""Cycles in which a thread takes a chunk. Measured by a phase of many empty chunks."""

BARRIER_CYCLES: Final = 1100
"""Cycles from the last chunk of a phase to the first of the next on two threads; see `barrier_cycles`."""

MIN_CHUNK_CYCLES: Final = 30 * CHUNK_CYCLES
"""Lower bound on the cycles of a chunk, so that taking it costs little."""

MAX_MERGED_STEP_CYCLES: Final = 6 * CHUNK_CYCLES
"""Upper bound on the cycles of a kernel step that joins others in one chunk."""

MIN_SPLIT_CYCLES: Final = 40 * CHUNK_CYCLES
"""Cycles of a product below which a partition costs more than a second thread gains."""

MAX_CHAIN_CYCLES: Final = 4000 * CHUNK_CYCLES
"""Upper bound on the cycles of a tiled chain; a thread that loses its core keeps others waiting for its share."""


MIN_PREFETCHED_BYTES: Final = 1 << 20
"""Least size of an operand that is prefetched, in bytes; smaller ones are in the second-level cache."""

MIN_TILED_BYTES: Final = 2 << 20
"""Least size of a tensor that a chain passes on tile by tile, in bytes; smaller ones stay in the second-level cache."""

MIN_LONE_TILED_BYTES: Final = 6 << 20
"""Least size of a tensor that a single group goes through tile by tile, in the direction that the caches favour."""

MAX_TILE_BYTES: Final = 4 << 20
"""Upper bound on a tile of a tensor that a chain passes on: the tiles of a few tensors stay in the last-level cache."""


def barrier_cycles(threads: int) -> float:
    """Return the cycles of a barrier of several threads.

    Each thread of a group adds to one word, whose line moves from core to core, and the caller reads the words of all
    groups: 75 ns for each such move at 3.66 GHz, where published times of contended lines are 50 to 100 ns. Measured on
    two threads; more are an estimate.
    """
    groups = min(-(-threads // THREADS_OF_GROUP), MAX_GROUPS)
    moves = min(threads, max(THREADS_OF_GROUP, threads - THREADS_OF_GROUP * (MAX_GROUPS - 1))) + groups - 1
    return BARRIER_CYCLES * (2 + moves) / 4


def tile_step_cycles(rows: int, vectors: int, panel_cycles: float = 0.0) -> float:
    """Return the cycles of a tile for each step of the depth.

    A step loads a vector for each column of vectors and an element for each row, and multiplies and adds once for each
    pair. A sum can be used again after the latency of a multiply-add. `panel_cycles` are those in which a vector
    arrives from beyond the first-level cache.
    """
    return max(
        rows * vectors / MULTIPLY_ADDS_PER_CYCLE,
        (rows + vectors) / OPERAND_LOADS_PER_CYCLE,
        vectors * panel_cycles,
        MULTIPLY_ADD_LATENCY_CYCLES,
    )


def chained_step_cycles(rows: int, vectors: int) -> float:
    """Return the cycles of a tile of combined pairs for each pair of the depth; see `kernels.pair_chains`."""
    return rows * vectors * (CHAINED_CYCLES_1, CHAINED_CYCLES_2, CHAINED_CYCLES_3, CHAINED_CYCLES_4)[vectors - 1]


def matrix_tile_step_cycles(rows: int, vectors: int, copied_rows: int) -> float:
    """Return the cycles of a tile by AMX for each pair of the depth, of which a register holds 16.

    `copied_rows` are those that are copied before they are loaded.
    """
    registers = -(-rows // MATRIX_ROWS) * vectors
    products, panels = rows * vectors * MATRIX_ROW_CYCLES, vectors * MATRIX_ROWS * MATRIX_PANEL_ROW_CYCLES
    beside = copied_rows * MATRIX_COPIED_ROW_CYCLES + (MATRIX_ROWS / 4 + registers) * MATRIX_REGISTER_CYCLES
    return (max(products, panels) + beside) / MATRIX_ROWS


def multiply_add_penalty(target: Target) -> int:
    """Return the slowdown of multiply-adds on a target without FMA; 1 with it."""
    return 1 if target.fma else UNFUSED_MULTIPLY_ADD_PENALTY


def multiply_add_cycles(target: Target, lanes: int, count: int) -> float:
    """Return the cycles of multiply-adds of elements, in vectors of `lanes`."""
    return count / lanes * VECTOR_MULTIPLY_ADD_CYCLES * multiply_add_penalty(target)


# Loops in a step.

MIN_ITERATION_CYCLES: Final = 200
"""Least cycles of an iteration: its actions, and the calls of its functions."""

MAX_CYCLES_BETWEEN_SIGNALS: Final = 1 << 25
"""Cycles of a loop after which the driver returns to its caller, some ten milliseconds, so that signals are handled."""

MAX_COMBINED_LOOP_CYCLES: Final = 1 << 33
"""Cycles of a loop, some seconds, above which a call has no more than one step, which returns to its caller."""
