"""Predictions beside ONNX Runtime: the same weights and rows, batches of 1 and 32, one and two threads.

    python benchmarks/predict_against_onnxruntime.py [--threads 1,2] [--batches 1,32] [--python PATH] [SUBJECT ...]

Either is a process of its own; they take turns, and what is printed are medians of their turns. Outputs have to agree
within 1e-5 of the largest. ONNX Runtime has the network from PyTorch: `pip install torch==2.13.0 onnx onnxruntime`;
`--python` names the interpreter of another environment that has them.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from against_peers import Contender, take_turns
from subjects import SUBJECTS

NAMES = ("lenet", "mobilenet", "resnet18", "lstm", "transformer")


class Predictor(Contender):
    """A process that predicts when it is asked."""

    def __init__(self, python, name, subject, threads, batch, outputs):
        """Start it."""
        program = str(Path(__file__).parent / "peers" / "predictor.py")
        command = [python, program, name, subject, str(threads), str(batch), outputs]
        self.name, self.seconds = name, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask(2)


def measured(options, subject, threads, batch):
    """Median seconds of a batch: ours, and theirs."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, f"{i}.npy")) for i in range(2)]
        both = [(sys.executable, "prograd", files[0]), (options.python, "onnxruntime", files[1])]
        contenders = [Predictor(python, name, subject, threads, batch, file) for python, name, file in both]
        ours, theirs = (np.load(file) for file in files)
    apart = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if apart > 1e-5:
        raise SystemExit(f"{subject}: outputs are {apart:.1e} of the largest apart")
    take_turns(contenders, options.rounds, options.seconds)
    for contender in contenders:
        contender.end()
    return [median(contender.seconds[1:]) for contender in contenders]


def main():
    """Print a table, and the median of its ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", default=NAMES, help="a part of their names")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    options = parser.parse_args()
    print(f"{'':24} batch  threads  {'us':>10}  times faster than ONNX Runtime")
    ratios = []
    for subject in (name for name in SUBJECTS if any(part in name for part in options.subjects)):
        for batch in map(int, options.batches.split(",")):
            for threads in map(int, options.threads.split(",")):
                ours, theirs = measured(options, subject, threads, batch)
                ratios.append(theirs / ours)
                print(f"{subject:24} {batch:5}  {threads:7}  {ours * 1e6:10.1f}  {theirs / ours:.2f}", flush=True)
    print(f"median {median(ratios):.2f}, least {min(ratios):.2f}; wanted 1.3 and 1")


if __name__ == "__main__":
    main()
