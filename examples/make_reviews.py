"""Writes reviews.safetensors: cards that a person reviews, simulated by the memory model that fsrs.py fits.

python examples/make_reviews.py            # 2,000 cards
python examples/make_reviews.py 12000      # 100,000 reviews

A card has 3 to 12 reviews. The next one is due when the chance to recall has fallen to between 0.6 and 0.97. `rating`
is 1 for a card that was forgotten, and 2, 3 and 4 for hard, good and easy; 0 fills up. `days` is the time since the
review before.
"""

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

LENGTH = 12
W = [0.9, 1.2, 3.6, 9.0, 5.4, 0.7, 1.1, 0.02, 1.2, 0.18, 0.7, 1.6, 0.08, 0.28, 1.6, 0.4, 2.2]
"""The memory of this person; fsrs.py begins with other numbers."""

cards = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
random = np.random.default_rng(1)
rating, days = np.zeros((cards, LENGTH), np.uint8), np.zeros((cards, LENGTH), np.float32)
first = random.choice(4, cards, p=[0.25, 0.15, 0.45, 0.15])
stability, difficulty = np.take(W, first), W[4] - (first - 2) * W[5]
rating[:, 0] = first + 1
length = random.integers(3, LENGTH + 1, cards)
for i in range(1, LENGTH):
    due = random.uniform(0.6, 0.97, cards)
    days[:, i] = np.maximum(1.0, np.round(9 * stability * (1 / due - 1)))
    recall = 1 / (1 + days[:, i] / (9 * stability))
    passed = random.random(cards) < recall
    grade = np.where(passed, random.choice([2, 3, 4], cards, p=[0.15, 0.7, 0.15]), 1)
    easier = difficulty - W[6] * (grade - 3)
    difficulty = np.clip(W[7] * W[4] + (1 - W[7]) * easier, 1, 10)
    grown = np.exp(W[8]) * (11 - difficulty) * stability ** -W[9] * (np.exp((1 - recall) * W[10]) - 1)
    grown *= np.where(grade == 2, W[15], 1.0) * np.where(grade == 4, W[16], 1.0)
    lost = W[11] * difficulty ** -W[12] * ((stability + 1) ** W[13] - 1) * np.exp((1 - recall) * W[14])
    stability = np.clip(np.where(passed, stability * (1 + grown), lost), 0.1, 36500)
    rating[:, i] = np.where(i < length, grade, 0)
days[rating == 0] = 0
numbers = np.arange(cards)
save_file(
    {
        "rating": rating,
        "days": days.astype(np.float32),
        "test": numbers[numbers % 5 == 4],
        "train": numbers[numbers % 5 != 4],
    },
    Path(__file__).with_name("reviews.safetensors"),
)
