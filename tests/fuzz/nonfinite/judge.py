"""A trial by the command, by the library and by an estimator, and what must hold of its files and states.

1. A run that succeeds has no NaN in a state that it saves, and no infinity in a parameter.
2. No checkpoint has either, whatever becomes of the run.
3. A run that fails says so: code 5, or NonFinite. Its newest checkpoint resumes, without the disturbance, to the bits
   of an undisturbed run.
4. Where the best states are kept and there was an evaluation, they are restored and saved, and have their metric.
"""

from __future__ import annotations

import io
import warnings
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from safetensors.numpy import load_file

import prograd
from fuzz.nonfinite.draw import NEVER, Trial, built, drawn, written
from prograd import NonFinite
from runtime.__main__ import main

PARAMETERS = (".w", ".b", ".scale", ".offset")


class Fault(AssertionError):
    """Something that must hold does not."""


def tried(seed: int) -> tuple[Counter[str], str]:
    """The counts of outcomes of a seed, and its fault, "" if there is none."""
    trial = drawn(seed)
    judges = (by_command, by_library) if seed % 5 else (by_command, by_library, by_estimator)
    counts: Counter[str] = Counter()
    for judge in judges:
        with TemporaryDirectory() as folder:
            try:
                counts[f"{judge.__name__}: {judge(trial, Path(folder))}"] += 1
            except Exception as error:
                return counts, f"{judge.__name__}: {type(error).__name__}: {error}; {trial}"
    return counts, ""


def by_command(trial: Trial, folder: Path) -> str:
    program, saved, kept = written(trial, folder), folder / "s.safetensors", folder / "c"
    every = ["--every", str(trial.every)] if trial.every else []
    words = ["execute", str(program), "-q", "--engine", trial.engine, "--checkpoint", str(kept), *every]
    code, said = command(*words, "--save", str(saved))
    require(code in (0, 5), f"code {code}: {said}")
    require_finite_files(kept)
    if saved.exists():
        require_finite(saved)
    require(saved.exists() or code == 5, "code 0 without a file")
    if code == 0:
        return "success"
    restored = "which have the best" in said
    require(saved.exists() == restored, f"the file of --save, and the sentence: {said}")
    require(restored or not trial.keep_best or not was_evaluated(trial, kept), f"no best states: {said}")
    if any(kept.glob("step-*")):
        calm, ends = (
            ["--set", f"bad_step={NEVER}", "--save"],
            [folder / "resumed.safetensors", folder / "whole.safetensors"],
        )
        code, said = command(*words, "--resume", "--change-settings", *calm, str(ends[0]))
        require(code == 0, f"the newest checkpoint does not resume: {said}")
        code, said = command(*words[:5], *calm, str(ends[1]))
        require(code == 0, said)
        is_same = trial.in_evaluation or states(ends[0]) == states(ends[1])  # a disturbed evaluation was judged, too
        require(is_same, "the resumed run differs from an undisturbed one")
    return "restored" if restored else "failure"


def by_library(trial: Trial, folder: Path) -> str:
    run = prograd.load(written(trial, folder), engine=trial.engine)
    options = {"every": trial.every} if trial.every else {}
    try:
        run.train(checkpoint=folder / "c", **options)
    except NonFinite as error:
        require_finite_files(folder / "c")
        if not error.is_restored:
            refused(run, folder)
            return "failure"
        run.set(bad_step=NEVER)  # what an evaluation reads, too
        found = run.evaluate("test")[trial.keep_best]
        best = run.position.best_metric
        require(best is not None and found == best, f"the best states have {found}, and had {best}")
        run.save(folder / "s.safetensors")
        require_finite(folder / "s.safetensors")
        return "restored"
    run.save(folder / "s.safetensors")
    require_finite(folder / "s.safetensors")
    require_finite_files(folder / "c")
    return "success"


def by_estimator(trial: Trial, folder: Path) -> str:
    from prograd.sklearn import Classifier

    def network(features: int, classes: int) -> prograd.Program:
        del features, classes
        program = built(trial)
        program.data_desc = program.run_desc = None
        return program

    rng = np.random.default_rng((trial.seed, 2))
    x = rng.standard_normal((max(trial.rows, 16), 6))
    y = np.arange(len(x)) % 2
    early = bool(trial.keep_best)
    model = Classifier(
        program=network,
        batch_size=trial.batch,
        max_iter=max(trial.epochs, 2),
        early_stopping=early,
        random_state=trial.seed,
        engine=trial.engine,
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            model.fit(x, y)
        except NonFinite:
            return "failure"
    arrays = {name: model.run_.state[name] for name in model.run_.state}
    require(not any(np.isnan(array).any() for array in arrays.values() if array.dtype.kind == "f"), "NaN after fit")
    return "restored" if any("the run ends with the states" in str(one.message) for one in told) else "success"


def command(*words: str) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        try:
            code = main([*words])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, text.getvalue()


def states(file: Path) -> dict[str, bytes]:
    """The bits of all states but the setting, which the best states have as it was then."""
    return {name: array.tobytes() for name, array in load_file(file).items() if not name.endswith("bad_step")}


def was_evaluated(trial: Trial, kept: Path) -> bool:
    """True if a checkpoint was written behind an evaluation."""
    return any(int(file.stem[5:]) >= trial.per_epoch for file in kept.glob("step-*")) and not trial.every


def refused(run: prograd.Run, folder: Path) -> None:
    """Require that states with NaN are not saved."""
    if any(np.isnan(array).any() for array in map(run.state.__getitem__, run.state) if array.dtype.kind == "f"):
        try:
            run.save(folder / "s.safetensors")
        except NonFinite:
            return
        raise Fault("states with NaN were saved")


def require_finite_files(folder: Path) -> None:
    for file in sorted(folder.glob("step-*")):
        require_finite(file)


def require_finite(file: Path) -> None:
    for name, array in load_file(file).items():
        if array.dtype.kind == "f":
            require(not np.isnan(array).any(), f"{file.name}: {name} has NaN")
            bare = name.removeprefix("run:best:")
            require(not bare.endswith(PARAMETERS) or np.isfinite(array).all(), f"{file.name}: {name} has Inf")


def require(holds: bool, told: str) -> None:
    if not holds:
        raise Fault(told)
