"""Random numbers by Python's own numbers, one at a time, and the answers that docs/format.md states."""

from __future__ import annotations

import math
import re
from pathlib import Path

DOCUMENT = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
LOW = 2**32 - 1
PLACES = [dict(seed=42, stream=1, step=0), dict(seed=-5, stream=7, step=3), dict(seed=2**40 + 1, stream=2, step=2**33)]


def scalar_philox(counter, key):
    """One block of words, with Python's own numbers."""
    c0, c1, c2, c3 = counter
    for i in range(10):
        k0, k1 = (key[0] + i * 0x9E3779B9) & LOW, (key[1] + i * 0xBB67AE85) & LOW
        first, second = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & LOW, (first >> 32) ^ c3 ^ k1, first & LOW
    return [c0, c1, c2, c3]


def scalar_words(count, *, seed, stream, step):
    key = (seed & LOW, seed >> 32 & LOW)
    blocks = ([b & LOW, stream, step & LOW, step >> 32] for b in range(-(-count // 4)))
    return [word for counter in blocks for word in scalar_philox(counter, key)][:count]


def scalar_uniform(count, dtype, **place):
    if dtype == "float32":
        return [(w >> 8) / 2**24 for w in scalar_words(count, **place)]
    return [p / 2**53 for p in of_53_bits(count, **place)]


def scalar_normal(count, dtype, **place):
    even = count + count % 2
    if dtype == "float32":
        pairs, scale = scalar_words(even, **place), 2**32
    else:
        pairs, scale = of_53_bits(even, **place), 2**53
    made = []
    for p, q in zip(pairs[::2], pairs[1::2], strict=True):
        radius, angle = math.sqrt(-2 * math.log((p + 1) / scale)), 2 * math.pi * q / scale
        made += [radius * math.cos(angle), radius * math.sin(angle)]
    return made[:count]


def of_53_bits(count, **place):
    words = scalar_words(2 * count, **place)
    return [(a >> 5) * 2**26 + (b >> 6) for a, b in zip(words[::2], words[1::2], strict=True)]


def answers(label):
    """The numbers in the row of the document's table with that label."""
    [row] = re.findall(rf"^\| {re.escape(label)} \| (.*) \|$", DOCUMENT, re.MULTILINE)
    return re.findall(r"`([^`]+)`", row)
