"""Try all samples of all operators with numbers that are not ordinary, by both engines: some minutes.

python tests/odd_numbers.py            # float32 and float64, as data and as known numbers
python tests/odd_numbers.py float32    # one of them
"""

from __future__ import annotations

import sys

from samples import SAMPLES
from subjects.odd_numbers import NEAR, ODD, as_known, in_data, is_float, of_dtype, unlisted


def main(dtypes: list[str]) -> int:
    """Print differences that docs/accuracy.md does not list; return 1 if there is one."""
    status = 0
    for dtype in dtypes or NEAR:
        for sample in SAMPLES:
            if not any(map(is_float, sample.operands)):
                continue
            for cases in (in_data, as_known):
                for difference in unlisted(list(cases(of_dtype(sample, dtype), list(ODD)))):
                    print(difference, flush=True)
                    status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
