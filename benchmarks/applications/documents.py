"""A classifier of documents beside scikit-learn's MLPClassifier: python benchmarks/applications/documents.py.

Ten thousand documents of examples/make_documents.py, 80 % to train on. Both have hidden layers of 100 units, read the
same sparse counts and train the same epochs by Adam in steps of 200 rows: the kind of a document. Three rounds in
turns; seconds and peak memory are those of a process that loads rows, trains, and predicts the rest. "Start" is a
process that loads a trained classifier and predicts a document. "runtime" is `runtime execute` with the program of
examples/documents.py, 64 hidden units and two heads, by NumPy where it only predicts: an application needs no more.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

ROOT = Path(__file__).parents[2]
EPOCHS = 8

ROWS = """
import resource, sys, time
start = time.perf_counter()
import numpy as np
from scipy.sparse import csr_matrix
def rows():
    from safetensors.numpy import load_file
    found = load_file("documents.safetensors")
    ones = np.ones(len(found["text"]), np.float32)
    counts = csr_matrix((ones, found["text"], found["text.offsets"]), (len(found["kind"]), 4096))
    counts.sum_duplicates()
    return counts, found["kind"], found["train"], found["test"]
def told(score):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.perf_counter() - start, peak, score)
"""

FIT = (
    ROWS
    + """
{imports}
x, y, train, test = rows()
model = {model}
model.fit(x[train], y[train])
told(model.score(x[test], y[test]))
import pickle
with open("{name}.pickle", "wb") as file:
    pickle.dump(model, file)
"""
)

ASK = (
    ROWS
    + """
import pickle
with open("{name}.pickle", "rb") as file:
    model = pickle.load(file)
model.predict(csr_matrix((np.ones(3, np.float32), np.array([1, 2, 3]), np.array([0, 3])), (1, 4096)))
told(0)
"""
)

WAYS = {
    "scikit-learn": dict(
        imports="from sklearn.neural_network import MLPClassifier",
        model=f"MLPClassifier((100,), max_iter={EPOCHS}, tol=0, n_iter_no_change={EPOCHS}, random_state=0)",
        name="sklearn",
    ),
    "prograd": dict(
        imports="from prograd.sklearn import Classifier",
        model=f"Classifier((100,), max_iter={EPOCHS}, tol=0, n_iter_no_change={EPOCHS}, random_state=0)",
        name="prograd",
    ),
}


def measured(code: str, folder: str) -> list[float]:
    """The three numbers that a process prints: seconds, MiB, accuracy."""
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return [float(word) for word in done.stdout.split()]


def by_command(*words: str, folder: str) -> list[float]:
    """Seconds and MiB of a command, and the accuracy in its result line if there is one."""
    start = perf_counter()
    command = [sys.executable, "-m", "runtime", "execute", "documents.pb", "-q", "--threads", "1", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} ended with {process.returncode}")
    accuracy = line.partition("evaluate.kinds=")[2].partition(" ")[0]
    return [perf_counter() - start, used.ru_maxrss / 1024, float(accuracy or 0)]


TRAIN = ("--epochs", str(EPOCHS), "--save", "t.safetensors", "--force")
ONE = ("--entry", "predict", "--load", "t.safetensors", "--feed", "words=[[1,2,3]]", "--feed", "present=[[1,1,1]]")


def main() -> None:
    with TemporaryDirectory() as folder:
        shutil.copy(ROOT / "examples" / "make_documents.py", folder)
        subprocess.run([sys.executable, "make_documents.py", "10000"], cwd=folder, check=True)
        shutil.copy(ROOT / "examples" / "documents.pb", folder)
        own = ("--data", "documents.safetensors")
        found: dict[tuple[str, str], list[list[float]]] = {}
        for _ in range(4):
            for what, code in (("train", FIT), ("start", ASK)):
                for way, words in WAYS.items():
                    found.setdefault((way, what), []).append(measured(code.format(**words), folder))
            found.setdefault(("runtime", "train"), []).append(by_command(*TRAIN, *own, folder=folder))
            asked = by_command(*ONE, "--engine", "reference", "--fetch", "kind", folder=folder)
            found.setdefault(("runtime", "start"), []).append(asked)
        print(f"{'':14} {'train':>8} {'peak':>9} {'accuracy':>9} {'start':>8} {'peak':>9}")
        for way in (*WAYS, "runtime"):
            trained, started = ([median(c) for c in zip(*found[way, w][1:], strict=True)] for w in ("train", "start"))
            print(
                f"{way:14} {trained[0]:6.2f} s {trained[1]:5.0f} MiB {trained[2]:9.4f} "
                f"{started[0]:6.2f} s {started[1]:5.0f} MiB"
            )


if __name__ == "__main__":
    main()
