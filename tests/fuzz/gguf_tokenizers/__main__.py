"""Tokenizers as GGUF and back: `python -m fuzz.gguf_tokenizers [--count N] [--seed N]`, in tests/.

A random tokenizer is written as a file of a language model has it. The tokenizer that is read from there gives the same
codes for random texts, or the first one was refused in a sentence.
"""

# pyright: basic

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from compiler.errors import CompileError
from compiler.exporters.gguf import tokenizer_values
from fuzz.gguf_tokenizers.draw import text_of, tokenizer_of
from runtime.language.gguf import GgufFile
from runtime.language.gguf_tokenizer import texts_of
from runtime.language.tokenizer import Tokenizer

TEXTS = 60
"""Texts for each tokenizer."""


def main() -> None:
    """Run the campaign, and print what failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = Counter(judged(seed) for seed in range(options.seed, options.seed + options.count))
    print(f"{options.count} tokenizers: {found['equal']} equal, {found['refused']} refused, {found['differs']} differ")
    sys.exit(int(found["differs"] > 0 or not found["equal"]))


def judged(seed: int) -> str:
    """Return if a tokenizer comes back: "equal", "refused" or "differs"."""
    rng = Random(seed)
    given = tokenizer_of(rng)
    first = Tokenizer(json.dumps(given))
    config = {"bos_token": "<s>", "eos_token": "</s>"}
    files = {"tokenizer.json": json.dumps(given), "tokenizer_config.json": json.dumps(config)}
    made: Any = SimpleNamespace(vocabulary=first.size + rng.choice([0, 5]), stops=(1,))
    try:
        values = tokenizer_values(files, made, Path("m"))
    except CompileError:
        return "refused"
    header = GgufFile(Path("m.gguf"), {key: value for key, (*_, value) in values.items()}, {}, {})
    again = Tokenizer(texts_of(header)["tokenizer.json"])
    for text in (text_of(rng) for _ in range(TEXTS)):
        for special in (False, True):
            ours, theirs = (each.codes(text, special=special) for each in (first, again))
            if ours != theirs:
                print(f"seed {seed}: {text!r} is {ours}, and {theirs} after the way through GGUF")
                return "differs"
    return "equal"


if __name__ == "__main__":
    main()
