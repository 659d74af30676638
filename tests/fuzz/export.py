"""Random programs as ONNX models beside ONNX Runtime: PYTHONPATH=tests python -m fuzz.export --count 2000 --jobs 2.

Each seed draws a program of float32 without gradients, exports its results to a random opset, has onnx.checker read the
model, runs it, and compares every result. One in three has a symbol in place of a size. Results of ops that ONNX lacks
are counted, and left out. Where ONNX Runtime has no kernel, the evaluator of onnx computes the model.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import prograd
from compiler import CompileError
from fuzz import campaign, judging, symbols
from fuzz.building import Building
from fuzz.campaign import Trial
from fuzz.drawing import Draw
from fuzz.generate import grow
from fuzz.verdict import Verdict

OPSETS = (13, 15, 17, 18, 19, 20, 21, 22, 23, 26)
TOLERANCE = {"float32": 2e-5, "float64": 1e-7, "float16": 1e-3, "bfloat16": 1e-2}
NOISE = 3e-7
"""Relative change of inputs and weights, whose effect on a result excuses a difference of its size."""

LACKING = ("NOT_IMPLEMENTED", "invalid channel count", "does not support double")
"""Words of ONNX Runtime where it lacks a kernel for a type, or fails for images without channels."""


class Unjudged(Exception):
    """A model that neither ONNX Runtime nor the evaluator of onnx computes."""


def drawn(seed: int) -> Building:
    """A program without gradients, whose results nobody reads."""
    rng = np.random.default_rng((seed, 26))
    draw = Draw(
        rng,
        dtypes=("float32",) if seed % 8 else ("float32", "float64"),
        wide=seed % 2 == 0,
        zeros=0.1 if seed % 16 == 5 else 0.0,
        fresh=float(rng.choice([0.1, 0.2, 0.4])),
        halves=seed % 8 == 3,
    )
    grow(draw, Counter(), draw.int(2, 10))
    return draw.building


def results_of(building: Building) -> list[str]:
    """The results that no other step reads."""
    read = {name for step in building.recipe.steps for name in step.reads()}
    made = [name for step in building.recipe.steps for name in step.outputs if name and name[0] == "v"]
    return [name for name in made if name not in read and building.names.get(name) is not None]


def judge(building: Building, seed: int) -> list[Verdict]:
    """A verdict for each result, or one for a refusal."""
    program, names = building.program, results_of(building)
    for name in names:
        program.entry(f"of_{name}", **{name: building.value(name)})
    rng = np.random.default_rng((seed, 27))
    opset = int(rng.choice(OPSETS))
    return [v for name in names for v in judging.guarded("export", partial(_result, building, name, opset, rng))]


def _result(building: Building, name: str, opset: int, rng: np.random.Generator) -> list[Verdict]:
    sizes: dict[str, Any] = building.recipe.sizes
    try:
        run = prograd.Run(building.program.compile(**sizes), engine="reference", threads=1)
    except CompileError as error:
        return [Verdict("skipped", "export", name, re.sub(r"'.*?'|\d+", "_", str(error))[:60])]
    try:
        model = prograd.to_onnx(run, entry=f"of_{name}", opset=opset)
    except CompileError as error:
        if "cannot be exported" not in str(error):
            raise
        reasons = re.findall(r"(\w+), used \d+ times?, .*?: ([^;]*)", str(error))
        return [Verdict("skipped", "export", name, "; ".join(f"{op} {_general(why)}" for op, why in reasons)[:90])]
    fed = {each.name for each in model.graph.input}
    feeds = {name: array for name, array in building.recipe.feeds.items() if name in fed}
    if building.value(name).dtype == "bfloat16":
        return [Verdict("skipped", "export", name, "NumPy has no bfloat16")]
    wanted = run.step(feeds, entry=f"of_{name}")[name]
    try:
        found, by = computed(model, feeds)
    except Unjudged:
        return [Verdict("skipped", "export", name, "neither ONNX Runtime nor onnx computes it")]
    verdict = _compared(found, wanted, f"{name} of opset {opset} by {by}")
    if verdict.word == "differs" and _is_noise(model, feeds, found, wanted, rng):
        return [Verdict("skipped", "export", name, "moves as much with the last digits of its inputs")]
    return [verdict]


def _general(reason: str) -> str:
    return re.sub(r"'.*?'|\d+|symbol \w+", "_", reason.split(" at ")[-1].rpartition(": ")[2] or reason)


def computed(model: Any, feeds: dict[str, np.ndarray]) -> tuple[np.ndarray, str]:
    """The result of a model, and what computed it."""
    if any(not x.size for x in feeds.values()) and any(node.op_type == "Scan" for node in model.graph.node):
        return evaluated(model, feeds), "onnx"  # ONNX Runtime divides by zero there, which ends the process
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if not any(words in str(error) for words in LACKING):
            raise
        return evaluated(model, feeds), "onnx"
    try:
        return session.run(None, feeds)[0], "ONNX Runtime"
    except Exception as error:
        if not any(words in str(error) for words in LACKING):
            raise
        return evaluated(model, feeds), "onnx"


def evaluated(model: Any, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The result of a model by onnx; raise Unjudged for what that lacks too."""
    try:
        return import_module("onnx.reference").ReferenceEvaluator(model).run(None, feeds)[0]
    except Exception:  # such as groups of a transposed convolution: faults of the evaluator, not of a checked model
        raise Unjudged from None


def _compared(found: np.ndarray, wanted: np.ndarray, what: str) -> Verdict:
    if found.shape != wanted.shape:
        return Verdict("differs", "export", what, f"the shape is {found.shape}, not {wanted.shape}")
    if found.dtype.name != wanted.dtype.name:
        return Verdict("differs", "export", what, f"the dtype is {found.dtype}, not {wanted.dtype}")
    apart = _apart(found, wanted)
    if apart <= (TOLERANCE.get(wanted.dtype.name, 0.0) if what.endswith("Runtime") else 1e-5):
        return Verdict("agreed", "export", what.rpartition(" by ")[2])
    return Verdict("differs", "export", what, f"by {apart:.2g} of the largest element")


def _apart(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, relative to the largest finite element and 1."""
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if not a.size:
        return 0.0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.all(np.isfinite(a[~same])) or not np.all(np.isfinite(b[~same])):
        return np.inf
    finite = np.abs(b[np.isfinite(b)])
    return float(np.max(np.where(same, 0.0, np.abs(a - b)))) / max(1.0, float(finite.max(initial=0.0)))


def _is_noise(
    model: Any, feeds: dict[str, np.ndarray], found: np.ndarray, wanted: np.ndarray, rng: np.random.Generator
) -> bool:
    """True if the model's own result moves as much when inputs and weights change in their last digits."""
    helper = import_module("onnx").numpy_helper
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False

    def moved(x: np.ndarray) -> np.ndarray:
        if x.dtype not in (np.float32, np.float64):
            return x
        size = NOISE if x.dtype == np.float32 else 1e-14
        return (x * (1 + size * rng.standard_normal(x.shape))).astype(x.dtype).reshape(x.shape)

    most = 0.0
    for _ in range(6):
        other = type(model)()
        other.CopyFrom(model)
        for tensor in other.graph.initializer:
            tensor.CopyFrom(helper.from_array(np.asarray(moved(helper.to_array(tensor))), tensor.name))
        again = computed(other, {name: np.asarray(moved(array)) for name, array in feeds.items()})[0]
        most = max(most, _apart(again, found)) if again.shape == found.shape else np.inf
    return _apart(found, wanted) <= 30 * most


def tried(seed: int) -> Trial:
    """One program."""
    trial = Trial(seed)
    warnings.simplefilter("ignore")
    try:
        building = drawn(seed)
    except Exception as error:
        trial.note([judging.raised("build", error)])
        return trial
    trial.recipe = building.recipe
    trial.counts["ops"] += len(building.tape)
    if seed % 3 == 0:
        building = symbols.with_symbol(building.recipe) or building
        trial.recipe = building.recipe
    found = judge(building, seed)
    trial.counts["programs with a result that was compared"] += any(v.word in ("agreed", "differs") for v in found)
    trial.note(found)
    return trial


def main() -> None:
    given = campaign.options((__doc__ or "").splitlines()[0]).parse_args()
    campaign.quiet()
    given.no_shrink = True
    raise SystemExit(bool(campaign.run(tried, given)))


if __name__ == "__main__":
    main()
