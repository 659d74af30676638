"""One contender in a process of its own: `contender.py NAME SUBJECT THREADS [MIXED]`.

It reads a number of steps from each line of its input, makes them, and answers with the seconds that they took and the
last loss. While it waits it takes no processor time.
"""

import os
import sys
from time import perf_counter

NAME, SUBJECT, THREADS = sys.argv[1], sys.argv[2], int(sys.argv[3])
MIXED = "".join(sys.argv[4:])
if hasattr(os, "sched_setaffinity"):  # for contenders that take all cores they see
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:THREADS]))

from subjects import SUBJECTS  # noqa: E402


def stepper():
    """Return a function that runs a number of steps and returns the last loss."""
    subject, (family, _, kind) = SUBJECTS[SUBJECT], NAME.partition(".")
    match family:
        case "torch":
            from in_torch import stepper
        case "jax":
            from in_jax import stepper
        case "tensorflow":
            from in_tensorflow import stepper
        case _:
            from in_prograd import stepper

            kind = "reference" if NAME == "reference" else f"native.{kind}".rstrip(".")
    return stepper(subject, THREADS, kind, MIXED)


def main():
    """Answer until there are no more lines."""
    steps = stepper()
    for line in sys.stdin:
        start = perf_counter()
        loss = steps(int(line))
        print(perf_counter() - start, float(loss), peak(), flush=True)


def peak():
    """Bytes of resident memory, at most, so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
