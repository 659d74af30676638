"""One runtime of an ONNX file in a process of its own: `file_predictor.py NAME FILE THREADS FEEDS OUTPUTS`.

FEEDS and OUTPUTS are .npz files. It writes the results of the first call, then reads numbers of calls from its input
and answers with the seconds that they took, and the most resident memory so far. NAME is `onnxruntime` or an engine of
prograd, such as `native`; `native integers` computes quantised products in integers.
"""

import os
import sys
from functools import partial
from time import perf_counter

NAME, FILE, THREADS, FEEDS, OUTPUTS = *sys.argv[1:3], int(sys.argv[3]), *sys.argv[4:6]
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:THREADS]))

import numpy as np  # noqa: E402 - it counts the cores that it may take


def by_prograd(feeds, engine="native", **options):
    """Return a call of the imported program; integers of rank 0 are known while importing."""
    import prograd

    known = {name: x for name, x in feeds.items() if x.ndim == 0}
    fed = {name: x for name, x in feeds.items() if x.ndim}
    program = prograd.from_onnx(FILE, {name: x.shape for name, x in fed.items()}, constants=known, **options)
    run = prograd.Run(program.compile(), engine=engine, threads=THREADS)
    own = run.entries["predict"].feeds
    given = dict(zip(own, fed.values(), strict=True))
    names = program.outputs_of_module

    def call():
        results = run.step(given, entry="predict")
        return [results[name] for name in names]

    return call


def by_onnxruntime(feeds):
    """Return a call of a session."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(FILE, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def main():
    """Answer until there are no more lines."""
    feeds = dict(np.load(FEEDS))
    name, _, word = NAME.partition(" ")
    call = by_onnxruntime if name == "onnxruntime" else partial(by_prograd, engine=name, integers=word == "integers")
    call = call(feeds)
    np.savez(OUTPUTS, *call())
    for line in sys.stdin:
        start = perf_counter()
        for _ in range(int(line)):
            call()
        print(perf_counter() - start, 0.0, peak(), flush=True)


def peak():
    """Bytes of resident memory, at most, so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
