"""Philox4x32-10 in lanes: the random bits of a stream, as in the reference engine; docs/format.md defines them.

Four lanes hold the counter of one block. A round multiplies every second lane; all 32-bit words of the products are
needed, in another order.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import UINT32, UINT64, Value
from runtime.codegen.ir.words import bits, convert, shuffle

ROUNDS: Final = 10
FACTORS: Final = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
LOW: Final = 0xFFFFFFFF


def philox(seed: Value, step: Value, stream: Value, block: Value, count: int) -> Value:
    """Return `count` 32-bit words, a multiple of four, of a stream from a block on; all numbers are int64 scalars."""
    f, lanes = seed.function, count // 2
    wide, narrow = UINT64.of(lanes), UINT32.of(count)
    blocks = f.splat(convert(block, UINT64), lanes) + f.constants(wide, [i // 2 for i in range(lanes)])
    numbered = (blocks & LOW) | f.splat(convert(stream << 32, UINT64), lanes)
    steps = f.splat(convert(step, UINT64), lanes)
    counter = shuffle(numbered, steps, [i + i % 2 * lanes for i in range(lanes)])
    both = bits(f.splat(convert(seed, UINT64), lanes), UINT32)
    key = shuffle(both, f.constant(narrow, 0), [i + part for i in range(0, count, 4) for part in (0, count, 1, count)])
    factors = f.constants(wide, FACTORS * (lanes // 2))
    key_steps = f.constants(narrow, (KEY_STEPS[0], 0, KEY_STEPS[1], 0) * (count // 4))
    for turn in range(ROUNDS):
        key = key + key_steps if turn else key
        products = bits((counter & LOW) * factors, UINT32)
        turned = shuffle(products, products, [i + part for i in range(0, count, 4) for part in (3, 2, 1, 0)])
        counter = bits(turned, UINT64) ^ (counter >> 32) ^ bits(key, UINT64)
    return bits(counter, UINT32)
