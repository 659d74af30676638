"""Lets the trained character model go on with a text, one character at a time.

runtime execute examples/characters.pb --epochs 20 --save alice_trained.safetensors
python examples/write_text.py alice_trained.safetensors
"""

import sys
from pathlib import Path

import numpy as np

import prograd

LENGTH = 64  # characters that the model sees
TEMPERATURE = 0.6  # near 0 the likeliest character always wins, at 1 each comes as often as the model expects it

run = prograd.load(Path(__file__).with_name("characters.pb"))
run.load(sys.argv[1])

text = "`What a curious feeling!' said Alice; `I must be shutting up like a"
print(text, end="")
random = np.random.default_rng(1)
for _ in range(500):
    codes = np.frombuffer(text[-LENGTH:].encode("ascii"), np.uint8)
    logits = run.predict(codes[np.newaxis])["logits"][0]
    weights = np.exp((logits - logits.max()) / TEMPERATURE)
    text += chr(random.choice(len(weights), p=weights / weights.sum()))
    print(text[-1], end="", flush=True)
print()
