"""Compare a random program with PyTorch, JAX and finite differences, and its bits with those of other compilations."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy as np

from compiler.build.compiled import Compiled
from compiler.errors import LimitError
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from fuzz.campaign import Trial
from fuzz.control_flow.by_prograd import Built, run
from fuzz.control_flow.draw import drawn
from fuzz.control_flow.tree import Tree
from fuzz.verdict import Verdict
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from runtime import Run

TOLERANCE = 1e-9
"""Largest error of a result, as a fraction of its largest element, at least 1."""

STEEP = 1e5
"""Size of a gradient above which last digits of the values around it decide its own: one in 1e9 is not asked for."""

OF_DIFFERENCES = 1e-4
NEEDED = frozenset({"bind_dimensions", "use_inference_forms", "list_operators"})
"""Passes without which a program is none."""

LAST_BITS = frozenset({"batch_products"})
"""Passes that may change last bits."""

MOVES = 8
"""Times that an oracle computes a result again from feeds whose last bits differ, to know how many digits it has."""

WAYS = 2
"""Other ways to compile and to run that are compared for each program."""

Results = Mapping[str, np.ndarray]
Oracle = Callable[[Tree, Sequence[np.ndarray]], Sequence[Sequence[np.ndarray]]]


def tried(seed: int, judges: tuple[str, ...]) -> Trial:
    """The faults of one program."""
    pairs = [judge.partition("/") for judge in judges]
    chosen = [judge for judge, _, every in pairs if seed % int(every or 1) == 0]
    trial = Trial(seed)
    try:
        for text in judged(seed, chosen):
            judge, _, why = text.partition(": ")
            if judge.startswith("skipped"):
                trial.counts[judge] += 1
            else:
                trial.note([Verdict("differs", judge, "program", why)])
    except Exception:
        trial.note([Verdict("raised", "campaign", "program", traceback.format_exc().strip()[-700:])])
    return trial


def judged(seed: int, judges: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each fault, or for what was not decided, which begins with "skipped"."""
    tree = drawn(seed)
    directions = [np.random.default_rng((seed, i)).normal(size=tree.feeds[i].shape) for i in tree.leaves]
    built = Built(tree, directions)
    found = run(built.desc, built.feeds, engine="reference")
    if "torch" in judges:
        from fuzz.control_flow.by_torch import by_torch

        yield from known_digits(_beside("torch", found, by_torch(tree, directions)), by_torch, seed, tree, directions)
    if "jax" in judges:
        from fuzz.control_flow.by_jax import by_jax

        yield from known_digits(_beside("jax", found, by_jax(tree, directions)), by_jax, seed, tree, directions)
    if "differences" in judges:
        yield from _differences(seed, tree, built, found)
    if "native" in judges:
        native = run(built.desc, built.feeds, engine="native")
        yield from (f"native: {name}: {why}" for name, why in _far(native, found, _tolerance(found)))
        yield from _same("native, two threads", run(built.desc, built.feeds, engine="native", threads=2), native)
        plain = run(_without(built.source, "batch_products"), built.feeds, engine="reference")
        yield from (f"without batch_products: {name}: {why}" for name, why in _far(plain, found, TOLERANCE))
    if "bits" in judges:
        ways = list(_ways(tree, directions, built))
        for k in np.random.default_rng(seed).permutation(len(ways))[:WAYS]:
            name, way = ways[k]
            results = way()
            if results is not None:
                yield from _same(name, results, {x: y for x, y in found.items() if x[0] != "h" or "save" not in name})


def _beside(judge: str, found: Results, parts: Sequence[Sequence[np.ndarray]]) -> Iterator[tuple[str, float, str]]:
    """Yield the name of each result that differs from an oracle's, the largest difference, and a sentence."""
    wanted = _named(parts)
    given = {name: found.get(name, np.zeros_like(x)) for name, x in wanted.items()}
    for name, why in _far(given, wanted, TOLERANCE):
        same_shape = given[name].shape == wanted[name].shape
        off = float(np.abs(given[name] - wanted[name]).max()) if same_shape else np.inf
        yield name, off, f"{judge}: {name}: {why}"


def known_digits(
    faults: Iterator[tuple[str, float, str]], oracle: Oracle, seed: int, tree: Tree, directions: Sequence[np.ndarray]
) -> Iterator[str]:
    """Yield the faults; those as small as what last bits of the feeds change in the oracle's own result are skipped.

    The sine of a large number has such results: its digits depend on all those of the number.
    """
    listed = list(faults)
    if not listed:
        return
    plain, moves = _named(oracle(tree, directions)), dict[str, float]()
    rng = np.random.default_rng((seed, 2000))
    for _ in range(MOVES):
        feeds = tuple(_last_bits_moved(rng, x) for x in tree.feeds)
        moved = _named(oracle(replace(tree, feeds=feeds), directions))
        for name, x in moved.items():
            moves[name] = max(moves.get(name, 0.0), float(np.abs(x - plain[name]).max(initial=0.0)))
    for name, off, sentence in listed:
        yield f"skipped: ill-conditioned: {sentence}" if off <= moves[name] else sentence


def _last_bits_moved(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return each float or one of its two neighbours."""
    if x.dtype.kind != "f":
        return x
    return np.choose(rng.integers(0, 3, x.shape), [x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])


def _named(parts: Sequence[Sequence[np.ndarray]]) -> Results:
    return {f"{key}{i}": x for key, part in zip("ygh", parts, strict=True) for i, x in enumerate(part)}


def _tolerance(found: Results) -> float:
    """Return the tolerance for other orders of additions: y0 adds sines of sums, which may be large."""
    steepest = max(float(np.abs(x).max(initial=1.0)) for name, x in found.items() if name[0] != "h")
    return TOLERANCE * max(1.0, steepest / STEEP)


def _far(found: Results, wanted: Results, tolerance: float) -> Iterator[tuple[str, str]]:
    for name, x in wanted.items():
        y = found[name]
        if y.shape != x.shape:
            yield name, f"has the shape {y.shape}, not {x.shape}"
            continue
        size = max(1.0, float(np.abs(x).max(initial=0.0)))
        if y.size and not np.abs(y - x).max() <= (tolerance if size < STEEP else tolerance * size / 1e3) * size:
            yield name, f"is off by {np.abs(y - x).max():.3g} at a size of {np.abs(x).max():.3g}"


def _same(way: str, found: Results, wanted: Results) -> Iterator[str]:
    for name, x in wanted.items():
        if x.tobytes() != found[name].tobytes():
            yield f"{way}: {name}: other bits, off by {np.abs(found[name] - x).max():.3g}"


def _differences(seed: int, tree: Tree, built: Built, found: Results) -> Iterator[str]:
    """Compare gradients along a direction with differences of values, second ones with differences of gradients."""
    rng = np.random.default_rng((seed, 1000))
    along = {i: rng.normal(size=tree.feeds[i].shape) for i in tree.leaves}
    weights = {k: built.feeds[f"v{k}"] for k in range(len(tree.leaves))}
    with closing(Run(copy_of(built.desc), engine="reference")) as session:
        [bound, *_] = session.session.bindings("predict")

        def moved(h: float) -> tuple[float, float]:
            feeds = {**built.feeds, **{f"x{i}": built.feeds[f"x{i}"] + h * v for i, v in along.items()}}
            y = session.step({name: feeds[name] for name in bound.feeds}, entry="predict")
            return float(y["y0"]), sum(float(np.sum(y[f"g{k}"] * w)) for k, w in weights.items() if f"g{k}" in y)

        for number, key in enumerate("gh"):
            pairs = [(found.get(f"{key}{k}"), along[i]) for k, i in enumerate(tree.leaves)]
            wanted = sum(float(np.sum(x * v)) for x, v in pairs if x is not None)
            slopes = [(moved(h)[number] - moved(-h)[number]) / (2 * h) for h in (1e-5, 1e-6, 3e-5)]
            off = min(abs(slope - wanted) for slope in slopes) / max(1.0, abs(wanted))
            if abs(wanted) > STEEP:
                yield f"skipped: {key} along a direction is {wanted:.3g}, too steep for differences"
            elif not off <= OF_DIFFERENCES:
                spread = (max(slopes) - min(slopes)) / max(1.0, abs(wanted))
                word = "skipped: differences" if spread > OF_DIFFERENCES else "differences"
                yield f"{word}: {key} along a direction is {wanted:.9g}, not {slopes}"


Way = Callable[[], Results | None]


def _ways(tree: Tree, directions: Sequence[np.ndarray], built: Built) -> Iterator[tuple[str, Way]]:
    """Yield other ways to compile and to run by the reference engine; values and gradients have equal bits.

    Second gradients are sums whose order depends on what a loop saves.
    """
    feeds = built.feeds

    def one(desc: pb.ProgramDesc | None, **options: object) -> Results | None:
        if desc is None:
            return None
        with TemporaryDirectory() as folder:
            return run(desc, feeds, engine="reference", spill=folder, **options)

    yield "three threads", lambda: one(built.desc, threads=3)
    yield "--check-nan", lambda: one(built.desc, check_nan=True)
    yield "save='all'", lambda: one(Built(tree, directions, "all").desc)
    yield "save='carries'", lambda: one(Built(tree, directions, "carries").desc)
    for name in PASSES.names:
        if name not in NEEDED | LAST_BITS:
            yield f"without {name}", lambda name=name: one(_without(built.source, name))
    arena = max(binding.plan.arena_bytes for entry in built.desc.entries for binding in entry.bindings)
    for share in (0.9, 0.8, 0.7):
        for spill in (False, True):
            budget = int(arena * share)
            say = f"{share} of the arena, spill={spill}"
            yield say, lambda budget=budget, spill=spill: one(_within(built.desc, budget, spill))


def _without(source: pb.ProgramDesc, name: str) -> pb.ProgramDesc:
    program = copy_of(source)
    for entry in program.entries:
        entry.bindings.add()
    gone = (name, "plan_memory") if name == "eliminate_dead_ops" else (name,)
    run_passes(program, PASSES.without(*gone))
    return program


def _within(desc: pb.ProgramDesc, budget: int, spill: bool) -> pb.ProgramDesc | None:
    compiled = Compiled(copy_of(desc))
    try:
        compiled.plan(budget=budget, spill=spill, seconds=2)
    except LimitError:
        return None
    return compiled.desc
