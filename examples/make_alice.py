"""Exports Lewis Carroll's Alice's Adventures in Wonderland to alice.safetensors; run once with the path of the text.

    pip download --no-deps --no-binary :all: Brotli    its archive has tests/testdata/alice29.txt
    python examples/make_alice.py alice29.txt

Text: Lewis Carroll (Charles Dodgson, who died in 1898), 1865, in the public domain; the Millennium Fulcrum Edition 2.9
as the Canterbury Corpus (Arnold and Bell, 1997) has it. Paragraphs become lines, and what is no prose, such as titles
and rows of stars, loses its indentation.
"""

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

LENGTH = 64  # characters in a row; its last one is the first of the next row, so that all but one are predicted once

raw = Path(sys.argv[1]).read_text(encoding="ascii").replace("\x1a", "")
story = raw[raw.index("CHAPTER I\n") :]
paragraphs = [" ".join(paragraph.split()) for paragraph in story.split("\n\n")]
text = "\n".join(paragraph for paragraph in paragraphs if paragraph.strip("* "))
codes = np.frombuffer(text.encode("ascii"), np.uint8)

starts = np.arange(0, len(codes) - LENGTH + 1, LENGTH - 1)
rows = np.arange(len(starts))
held_out = len(rows) * 9 // 10  # the end of the story
save_file(
    {"text": codes[starts[:, np.newaxis] + np.arange(LENGTH)], "train": rows[:held_out], "test": rows[held_out:]},
    Path(__file__).with_name("alice.safetensors"),
    metadata={"source": "Lewis Carroll, Alice's Adventures in Wonderland, 1865", "licence": "public domain"},
)
