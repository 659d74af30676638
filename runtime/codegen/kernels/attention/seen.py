"""The number of keys that a block of queries sees; products leave out later keys.

A causal mask gives the number by positions; a mask of bools is read panel by panel from its end. A hidden key has a
weight of 0, but 0 times infinity or NaN is NaN. Therefore a head with such elements leaves out no key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.codegen.ir import UINT8, Function, Index, Value
from runtime.codegen.ir.words import across, any_lane, minimum, where
from runtime.codegen.kernels.attention.heads import Block, Heads
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.nest import offset_of
from runtime.codegen.kernels.reduction import PARALLEL_CHAINS, SUM, along_row, by_pairs, in_lanes, whole_vectors
from runtime.codegen.kernels.steps import KernelContext


def are_finite(f: Function, heads: Heads, parts: Sequence[tuple[Matrix, int, int]]) -> Value:
    """Return True, as a scalar, if all elements of some parts are finite; a part is a matrix with its sizes."""
    lanes, total = heads.lanes, f.constant(heads.element, 0)
    vector = heads.element.of(lanes)

    def zeros(at: Value) -> Callable[[Index, int | None], list[Value]]:
        return lambda i, tail: [f.load(at, i, lanes, tail) * 0.0]

    for matrix, rows, columns in parts:
        if matrix.row == columns:
            total += along_row(f, rows * columns, zeros(matrix.at), [SUM], [vector])[0]
            continue
        whole = rows // PARALLEL_CHAINS * PARALLEL_CHAINS
        chains = [f.constant(vector, 0)] * PARALLEL_CHAINS
        for start, stop, together in ((0, whole, PARALLEL_CHAINS), (whole, rows, 1)):
            loop = f.loop(start, stop, together, chains[:together])
            for i, sums in loop:
                reads = [zeros(matrix.moved(i + row, 0).at) for row in range(together)]
                found = [whole_vectors(in_lanes(f, columns, read, [SUM], [vector]), [SUM])[0] for read in reads]
                loop.carry([x + one for x, one in zip(sums, found, strict=True)])
            chains[:together] = loop.results
        total += across(by_pairs(chains, SUM), lambda a, b: a + b)
    return total.equal(0)


def seen_keys(
    context: KernelContext, heads: Heads, block: Block, mask: Value | None, finite: Value, word: Value
) -> Index:
    """Return the number of keys before the first one that no query of the block sees, in whole nominal panels.

    Args:
        context: the arguments of the kernel step.
        heads: the sizes.
        block: the queries.
        mask: address of the mask, if there is one.
        finite: address of a number that is 1 if keys may be left out.
        word: address of scratch for one number.
    """
    if not heads.leaves_out:
        return heads.keys
    f, keys, may = context.f, heads.keys, context.f.load(finite).equal(1)
    last = f.index(keys)
    if heads.causal:
        last = minimum(f.index(block.first) + block.rows, keys)
    f.store(where(may, last, keys), word)
    if mask is None or heads.mask is None or heads.mask[0] != "bool" or not heads.mask[1][-1]:
        return _in_whole_panels(heads, f.load(word))
    first = mask + offset_of([block.image, block.head, block.first, 0], heads.mask[1])
    with f.when(may), f.forever() as looking:
        start = (f.load(word) - 1) // heads.nominal_panel * heads.nominal_panel
        looking.end_if(start.equal(0))
        looking.end_if(_is_seen(f, heads, block.rows, f.cast(first, UINT8), start))
        f.store(start, word)
    return _in_whole_panels(heads, f.load(word))


def _in_whole_panels(heads: Heads, seen: Value) -> Value:
    """Return the number of keys up to the end of a nominal panel; panels of the target itself need no rounding."""
    if heads.panel == heads.nominal_panel:
        return seen
    return minimum((seen + (heads.nominal_panel - 1)) // heads.nominal_panel * heads.nominal_panel, heads.keys)


def _is_seen(f: Function, heads: Heads, rows: int, mask: Value, start: Value) -> Value:
    """Return True, as a scalar, if a row sees a key of the nominal panel that begins at `start`."""
    assert heads.mask is not None, "there is a mask to look at"
    lanes, row = heads.lanes, heads.mask[1][2]
    loop = f.loop(0, rows if row else 1, 1, [f.constant(UINT8.of(lanes), 0)])
    for i, [any_seen] in loop:
        for j in range(0, heads.nominal_panel, lanes):
            left = heads.keys - start - j
            count = None if heads.keys % heads.nominal_panel == 0 else minimum(left, lanes)
            any_seen = any_seen | f.load(mask, i * row + start + j, lanes, count)
        loop.carry([any_seen])
    return any_lane(loop.results[0].not_equal(0))
