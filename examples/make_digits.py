"""Exports scikit-learn's handwritten digits to digits.safetensors; run once, needs scikit-learn.

Data: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998,
doi 10.24432/C50P49, licence CC BY 4.0; the test part of it, as scikit-learn ships it: 1,797 images of 8 x 8 pixels.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

digits = load_digits()
rows = np.arange(len(digits.target))
save_file(
    {
        "image": digits.images.astype(np.uint8)[..., np.newaxis],  # 0 to 16, rows x 8 x 8 x 1
        "label": digits.target.astype(np.int64),
        "train": rows[rows % 3 != 2],
        "test": rows[rows % 3 == 2],
    },
    Path(__file__).with_name("digits.safetensors"),
    metadata={
        "source": "Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998, doi 10.24432/C50P49",
        "licence": "CC BY 4.0",
    },
)
