"""One contender in a process of its own: `predictor.py NAME SUBJECT THREADS BATCH OUTPUTS`.

It writes what it predicts for the first rows to a file, then reads numbers of batches from its input and answers with
the seconds that they took, and the most resident memory so far.
"""

import os
import sys
from time import perf_counter

NAME, SUBJECT, THREADS, BATCH, OUTPUTS = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:THREADS]))

import numpy as np  # noqa: E402 - it counts the cores that it may take
from subjects import SUBJECTS, rows  # noqa: E402 - likewise


def main():
    """Answer until there are no more lines."""
    subject = SUBJECTS[SUBJECT]
    x = rows(subject)[0]
    if NAME == "onnxruntime":
        from in_onnxruntime import predictor
    else:
        from in_prograd import predictor
    predict = predictor(subject, THREADS, x[:BATCH])
    np.save(OUTPUTS, predict(x[:BATCH]))
    at = 0
    for line in sys.stdin:
        start = perf_counter()
        for _ in range(int(line)):
            predict(x[at : at + BATCH])
            at = (at + BATCH) % len(x)
        print(perf_counter() - start, 0.0, peak(), flush=True)


def peak():
    """Bytes of resident memory, at most, so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
