"""Writes documents.safetensors: short letters of six kinds, each with some of five labels, made of words by chance.

python examples/make_documents.py            # 700 documents
python examples/make_documents.py 10000      # as many as a household has

A document has words that many documents have, words of its kind, and words of each of its labels. A word becomes the
hash of its letters, so later documents may have any words.
"""

import sys
from pathlib import Path

import numpy as np

import prograd

KINDS = ["invoice", "contract", "letter", "payslip", "manual", "report"]
LABELS = ["tax", "car", "health", "house", "school"]
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 700
random = np.random.default_rng(5)


def vocabulary(size: int) -> list[str]:
    """Return words of three to five syllables."""
    syllables = ["ba", "do", "fi", "gu", "ke", "la", "mo", "nu", "pa", "ri", "so", "te", "vi", "wa", "zu", "en", "or"]
    return ["".join(random.choice(syllables, random.integers(3, 6))) for _ in range(size)]


common = vocabulary(3000)
of_kind = {kind: vocabulary(60) for kind in KINDS}
of_label = {label: vocabulary(40) for label in LABELS}
frequency = 1 / np.arange(1, len(common) + 1)
table = {"text": [], "kind": [], **{label: [] for label in LABELS}}
for _ in range(COUNT):
    kind, labels = random.choice(KINDS), random.random(len(LABELS)) < 0.25
    words = [*random.choice(common, random.integers(15, 60), p=frequency / frequency.sum())]
    words += [*random.choice(of_kind[kind], 4)]
    for label, is_there in zip(LABELS, labels, strict=True):
        words += [*random.choice(of_label[label], 6 * is_there)]
        table[label].append(bool(is_there))
    table["text"].append(" ".join(random.permutation(words)))
    table["kind"].append(str(kind))
prograd.data.pack(
    table,
    Path(__file__).with_name("documents.safetensors"),
    hash={"text": 4096},
    join={"labels": LABELS},
    split={"train": 0.8, "test": 0.2},
    force=True,
)
