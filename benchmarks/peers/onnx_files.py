"""Predictions of imported ONNX files beside ONNX Runtime: the same feeds, one and two threads.

    python benchmarks/peers/onnx_files.py [--threads 1,2] [--batches 1,8] [--only WORD] [FILE ...]

Without files, it measures the light models of the package onnx with seeded weights, and models of torchvision as
`torch.onnx.export` writes them. Symbols are the batch where they are the first axis; `--size NAME=N` gives the size of
another one, `--input 'x=[1,512]'` the shape of an input, and `--constant sr=16000` the value of one;
integers are drawn below 2, or below `--below 256`.

Either runtime is a process of its own; they take turns, and what is printed are medians of their turns. Results have to
agree within 1e-4 (1 + |b|), or 2e-3 for files with quantised weights, whose products `--integers` computes in integers.
It needs `pip install onnx onnxruntime`, and for the models of torchvision `torch==2.13.0 torchvision onnxscript`.
"""

import argparse
import logging
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from against_peers import Contender, take_turns

HERE = Path(__file__).parent
DTYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}
"""NumPy's dtypes of inputs by ONNX's numbers."""

TORCHVISION = ("resnet18", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "vit_b_32", "shufflenet_v2_x1_0")


class FilePredictor(Contender):
    """A process that runs a file when it is asked."""

    def __init__(self, name, file, threads, feeds, outputs):
        """Start it."""
        program = str(HERE / "file_predictor.py")
        command = [sys.executable, program, name, str(file), str(threads), feeds, outputs]
        self.name, self.seconds = name, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask(2)


def measured(options, file, threads, feeds, engine="native"):
    """Median seconds of a call, ours and theirs, and the largest difference |a - b| / (1 + |b|) of results.

    Ours are by this engine, which may be followed by `integers`.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, *files = (str(Path(folder, f"{name}.npz")) for name in ("feeds", "ours", "theirs"))
        np.savez(given, **feeds)
        names = (engine, "onnxruntime")
        contenders = [FilePredictor(name, file, threads, given, made) for name, made in zip(names, files, strict=True)]
        ours, theirs = (list(np.load(made).values()) for made in files)
    apart = max(float(np.max(np.abs(a - b) / (1 + np.abs(b)))) for a, b in zip(ours, theirs, strict=True))
    take_turns(contenders, options.rounds, options.seconds)
    for contender in contenders:
        contender.end()
    return *[median(contender.seconds[1:]) for contender in contenders], apart


def require_agreement(file, apart):
    """End the program if results differ by more than those of a file may."""
    if not apart <= (2e-3 if is_quantised(file) else 1e-4):
        raise SystemExit(f"{file}: results are {apart:.1e} apart")


def is_quantised(file):
    """Return True for a file that dequantises tensors."""
    import onnx

    return any(node.op_type == "DequantizeLinear" for node in onnx.load(str(file)).graph.node)


def feeds_of(file, batch, options):
    """Return seeded arrays for the inputs of a file."""
    import onnx

    graph = onnx.load(str(file)).graph
    stored = {tensor.name for tensor in graph.initializer}
    shapes, values, sizes = (pairs(texts) for texts in (options.input, options.constant, options.size))
    rng, made = np.random.default_rng(3), {}
    for value in graph.input:
        if value.name in stored:
            continue
        tensor = value.type.tensor_type
        dtype = DTYPES[tensor.elem_type]
        if value.name in values:
            made[value.name] = np.array(float(values[value.name]), dtype)
            continue
        shape = [extent(axis, dim, batch, sizes) for axis, dim in enumerate(tensor.shape.dim)]
        if value.name in shapes:
            shape = [int(n) for n in shapes[value.name].strip("[]").split(",")]
        drawn = rng.normal(size=shape) if dtype in (np.float32, np.float64) else rng.integers(0, options.below, shape)
        made[value.name] = drawn.astype(dtype)
    return made


def extent(axis, dim, batch, sizes):
    """Return the size of a dimension."""
    if dim.dim_value > 0:
        return batch if axis == 0 and dim.dim_value == 1 else dim.dim_value
    return int(sizes.get(dim.dim_param, batch if axis == 0 or dim.dim_param == "batch" else 1))


def pairs(texts):
    """Return words of the form NAME=VALUE as a mapping."""
    return dict(text.split("=", 1) for text in texts)


def light(folder):
    """Write the light models with seeded weights; return their paths."""
    sys.path.insert(0, str(HERE.parents[1] / "tests"))
    from conformance.light import models, seeded

    for path in models():
        made = Path(folder, path.name)
        made.write_bytes(seeded(path, 7).SerializeToString())
        yield made, False


def exported(folder):
    """Write seeded models of torchvision; return their paths."""
    import torch

    sys.path.insert(0, str(HERE.parents[1] / "tests"))
    from frontends.torchvision_without_operators import torchvision

    torch.backends.mha.set_fastpath_enabled(False)  # the exporter lacks the operator of the fast path
    for name in TORCHVISION:
        torch.manual_seed(0)
        model, path = getattr(torchvision().models, name)(weights=None).eval(), Path(folder, f"{name}.onnx")
        logging.disable(logging.CRITICAL)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            example, names = torch.zeros(2, 3, 224, 224), {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
            torch.onnx.export(model, (example,), str(path), dynamo=False, opset_version=17, **names)
        logging.disable(logging.NOTSET)
        yield path, True


def subjects(options, folder):
    """Files, and whether their batch may be chosen."""
    if options.files:
        yield from ((Path(file), True) for file in options.files)
        return
    yield from light(folder)
    yield from exported(folder)


def main():
    """Print a table, and the median of its ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="ONNX files")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batches", default="1")
    parser.add_argument("--only", default="", help="a part of the names of files")
    for word, what in (("size", "NAME=N"), ("input", "NAME=[N,…]"), ("constant", "NAME=VALUE")):
        parser.add_argument(f"--{word}", action="append", default=[], metavar=what)
    parser.add_argument(
        "--below", type=int, default=2, metavar="N", help="integers are drawn from 0 to N - 1; 2 unless given"
    )
    parser.add_argument("--integers", action="store_true", help="compute quantised products in integers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    options = parser.parse_args()
    engine = "native integers" if options.integers else "native"
    print(f"{'':34} batch  threads  {'us':>10}  times faster than ONNX Runtime")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for file, is_free in subjects(options, folder):
            if options.only not in file.name:
                continue
            for batch in map(int, options.batches.split(",") if is_free else "1"):
                feeds = feeds_of(file, batch, options)
                for threads in map(int, options.threads.split(",")):
                    ours, theirs, apart = measured(options, file, threads, feeds, engine)
                    require_agreement(file, apart)
                    ratios.append(theirs / ours)
                    print(f"{file.stem:34} {batch:5}  {threads:7}  {ours * 1e6:10.1f}  {theirs / ours:.2f}", flush=True)
    print(f"median {median(ratios):.2f}, least {min(ratios):.2f}; wanted 1")


if __name__ == "__main__":
    main()
