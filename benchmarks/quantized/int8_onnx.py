"""Quantised ONNX files beside ONNX Runtime: times and differences, for one and two threads.

    python benchmarks/quantized/int8_onnx.py [--engine native.avx2] [--floats] [NETWORK ...]

It needs PyTorch, torchvision and ONNX Runtime, which quantises the networks with uint8 activations and weights of uint8
or int8 for each channel. Either runtime is a process of its own; they take turns, and times are medians of turns. The
ratio is the time of ONNX Runtime divided by that of prograd. `benchmarks/peers/onnx_files.py --integers` measures files
that are given. The largest difference is that of |a - b| / (1 + |b|).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

from onnx_files import measured
from onnx_networks import NETWORKS, quantised, rows


def main() -> None:
    """Print a line for each network, its weights, and a number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="all unless given")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--engine", default="native")
    parser.add_argument("--floats", action="store_true", help="compute in floats")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    options = parser.parse_args()
    engine = options.engine if options.floats else f"{options.engine} integers"
    print("network        weights  threads   ONNX Runtime us   prograd us   ratio   largest difference")
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            for weights, path, shape in quantised(name, Path(folder)):
                for threads in map(int, options.threads.split(",")):
                    ours, theirs, apart = measured(options, path, threads, {"x": rows(shape, 99)}, engine)
                    ratios.append(theirs / ours)
                    print(
                        f"{name:<14} {weights:<7} {threads:>8} {theirs * 1e6:>17.0f} {ours * 1e6:>12.0f} "
                        f"{ratios[-1]:>7.2f} {apart:>20.3g}",
                        flush=True,
                    )
    print(f"median {median(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
