"""Mutated ONNX files: each is imported, or refused in one sentence.

1. Take a model of the backend tests, or a small network whose weights are in a file beside it.
2. Mutate it: change bytes of the file, or change names, shapes, types, attributes and places of data in the message.
3. Import it. An error of another class than ours, an error of several lines, more than some seconds of processor time,
   or a file that is opened outside of the model's folder and of Python's packages is a fault.

PYTHONPATH=tests python -m conformance.mutated --count 20000 --seed 1
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import prograd
from conformance.backend import cases
from prograd_proto import ProgramError

SECONDS = 20
"""Processor time for one import."""

NUMBERS = (-(2**63), -1, 0, 1, 2, 7, 2**20, 2**31, 2**40, 2**63 - 1)
"""Numbers that replace others."""

PATHS = ("../secret", "/etc/passwd", "weights.bin", "", ".", "a/../../secret", "weights.bin\0", "link")
"""Places of external data."""


class Slow(BaseException):
    """An import that takes too long."""


def sources() -> list[Any]:
    """Return models of the backend tests, and a network whose weights are beside it."""
    onnx: Any = import_module("onnx")
    made = [case.model for case in cases("node")[::9] if case.model is not None]
    for kind in ("simple", "converted", "operator"):
        made += [onnx.load(str(Path(case.model_dir) / "model.onnx")) for case in cases(kind)[::4] if case.model_dir]
    return [*made, *[network(onnx)] * 40]


def network(onnx: Any) -> Any:
    """Return a network of a product with weights beside the file, a function, a branch and a loop."""
    make = onnx.helper
    weights = onnx.numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "256")):
        weights.external_data.add(key=key, value=value)
    value = make.make_tensor_value_info("y", 1, None)
    branch = make.make_graph([make.make_node("Relu", ["a"], ["y"])], "branch", [], [value])
    nodes = [
        make.make_node("MatMul", ["x", "w"], ["a"]),
        make.make_node("If", ["c"], ["b"], then_branch=branch, else_branch=branch),
        make.make_node("Twice", ["b"], ["z"], domain="local"),
        make.make_node("Reshape", ["z", "shape"], ["r"]),
    ]
    function = make.make_function(
        "local", "Twice", ["p"], ["q"], [make.make_node("Add", ["p", "p"], ["q"])], [make.make_opsetid("", 17)]
    )
    graph = make.make_graph(
        nodes,
        "net",
        [make.make_tensor_value_info("x", 1, ("n", 8)), make.make_tensor_value_info("c", 9, ())],
        [make.make_tensor_value_info("r", 1, None)],
        [weights, onnx.numpy_helper.from_array(np.array([-1, 4]), "shape")],
    )
    opsets = [make.make_opsetid("", 17), make.make_opsetid("local", 1)]
    return make.make_model(graph, opset_imports=opsets, functions=[function])


def mutated(model: Any, rng: random.Random) -> bytes:
    """Return the bytes of a model after one to three mutations."""
    onnx: Any = import_module("onnx")
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.randint(1, 3)):
        _mutate(copy, rng)
    data = bytearray(copy.SerializeToString())
    if rng.random() < 0.35:
        for _ in range(rng.choice([1, 2, 8, 64])):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data
    return bytes(data)


def _mutate(model: Any, rng: random.Random) -> None:
    """Change one scalar, name or item somewhere in the message."""
    message = model
    for _ in range(rng.randint(1, 12)):
        fields = [(f, v) for f, v in message.ListFields() if v is not None]
        if not fields:
            return
        field, value = rng.choice(fields)
        is_many = not isinstance(value, str | bytes | int | float) and hasattr(value, "__len__") and len(value)
        if field.message_type is None:
            return _change(message, field, value, is_many, rng)
        if not is_many:
            message = value
            continue
        if rng.random() < 0.15:
            number = rng.randrange(len(value))
            if rng.random() < 0.5:
                del value[number]
            else:
                value.add().CopyFrom(value[number])
            return None
        message = rng.choice(list(value))
    return None


def _change(message: Any, field: Any, value: Any, is_many: Any, rng: random.Random) -> None:
    sample = value[0] if is_many else value
    new: Any
    if isinstance(sample, str):
        new = rng.choice([*PATHS, "x", "y", "a", "w", sample + "_", sample[:-1], "x" * 5000])
    elif isinstance(sample, bytes):
        new = sample[: rng.randrange(len(sample) + 1)] + bytes(rng.randrange(3))
    elif isinstance(sample, float):
        new = rng.choice([0.0, -1.0, 1e38, float("nan"), float("inf")])
    else:
        new = rng.choice(NUMBERS)
    try:
        if is_many:
            value[rng.randrange(len(value))] = new
        else:
            setattr(message, field.name, new)
    except (ValueError, TypeError):
        return


def fault(data: bytes, folder: Path, opened: list[str]) -> str:
    """Return what is wrong with an import of these bytes; "" for an import, or a refusal in one sentence."""
    path = folder / "net.onnx"
    path.write_bytes(data)
    opened.clear()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        prograd.from_onnx(path)
    except (prograd.CompileError, ProgramError) as error:
        if len(str(error).splitlines()) != 1:
            return f"an error of several lines: {str(error)[:300]!r}"
    except Slow:
        return f"more than {SECONDS} seconds"
    except MemoryError:
        return "more memory than allowed"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    allowed = (str(folder), sys.prefix, sys.base_prefix, str(Path(prograd.__file__).parent.parent))
    outside = [name for name in opened if not name.startswith(allowed) and "site-packages" not in name]
    return f"opened {outside[0]}" if outside else ""


def main() -> int:
    """Try mutated files, and print each fault with the number that repeats it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat this number alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    opened: list[str] = []

    def listen(event: str, arguments: Any) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            opened.append(os.fsdecode(arguments[0]))

    def alarm(*_: object) -> None:
        raise Slow

    signal.signal(signal.SIGPROF, alarm)
    models, faults = sources(), 0
    sys.addaudithook(listen)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        folder.mkdir()
        (Path(name) / "secret").write_bytes(bytes(4096))
        (folder / "link").symlink_to(Path(name) / "secret")
        (folder / "weights.bin").write_bytes(np.ones(64, np.float32).tobytes())
        numbers = range(options.count) if options.only is None else [options.only]
        for number in numbers:
            rng = random.Random(f"{options.seed} {number}")
            told = fault(mutated(rng.choice(models), rng), folder, opened)
            if told:
                faults += 1
                print(f"--seed {options.seed} --only {number}: {told}", flush=True)
    print(f"{len(numbers)} files, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
