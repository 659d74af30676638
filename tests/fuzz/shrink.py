"""A smaller program that fails in the same way: steps are left out, or become inputs, as long as it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.building import Building
from fuzz.recipe import Recipe, Step

Fails = Callable[[Recipe], bool]


def shrunk(recipe: Recipe, fails: Fails, attempts: int = 600) -> Recipe:
    """Return the smallest failing recipe that is found in `attempts` attempts."""
    left = [attempts]

    def better(candidate: Recipe) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(candidate)

    while left[0] > 0:
        smaller = next((c for c in _smaller(recipe) if better(c)), None)
        if smaller is None:
            break
        recipe = smaller
    return recipe


def _smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Candidates, those that leave out most first."""
    count = len(recipe.steps)
    size = count // 2
    while size > 1:
        for start in range(count - size, -1, -size):
            yield without(recipe, set(range(start, start + size)))
        size //= 2
    for at in range(count - 1, -1, -1):
        yield without(recipe, {at})
    yield from _fewer_parts(recipe)
    yield from _earlier_targets(recipe)
    yield from _as_inputs(recipe)
    yield from _shared(recipe)


def without(recipe: Recipe, gone: set[int]) -> Recipe:
    """The recipe without these steps and whatever reads what they give."""
    missing: set[str] = set()
    steps: list[Step] = []
    for at, step in enumerate(recipe.steps):
        if at in gone or (step.call not in ("outputs", "gradients") and not missing.isdisjoint(step.reads())):
            missing.update(step.outputs)
            continue
        if step.call == "outputs":
            step = replace(step, named={k: v for k, v in step.named.items() if v not in missing})
        if step.call == "gradients":
            step = _kept_gradients(step, missing)
            missing.update(set(recipe.steps[at].outputs) - set(step.outputs))
        if (
            step.call not in ("outputs", "gradients")
            or step.named
            or (step.operands and step.operands[0] and step.operands[1])
        ):
            steps.append(step)
    kept = {name for step in steps if step.call == "input" for name in step.outputs}
    return replace(recipe, steps=steps, feeds={k: v for k, v in recipe.feeds.items() if k in kept})


def _kept_gradients(step: Step, missing: set[str]) -> Step:
    targets, inputs, seeds = step.operands
    kept = [(t, s) for t, s in zip(targets, seeds, strict=True) if t not in missing and s not in missing]
    pairs = [(x, g) for x, g in zip(inputs, step.outputs, strict=True) if x not in missing]
    operands = (tuple(t for t, _ in kept), tuple(x for x, _ in pairs), tuple(s for _, s in kept))
    return replace(step, operands=operands, outputs=tuple(g for _, g in pairs))


def _fewer_parts(recipe: Recipe) -> Iterator[Recipe]:
    """One output, target, input or seed less."""
    for at, step in enumerate(recipe.steps):
        for name in step.named if step.call == "outputs" else ():
            yield _with(recipe, at, replace(step, named={k: v for k, v in step.named.items() if k != name}))
        if step.call == "gradients":
            read = {name for other in recipe.steps for name in other.reads()}
            for smaller in _fewer_gradients(step, read):
                yield _with(recipe, at, smaller)


def _fewer_gradients(step: Step, read: set[str]) -> Iterator[Step]:
    targets, inputs, seeds = step.operands
    for i in range(len(targets) if len(targets) > 1 else 0):
        yield replace(step, operands=(targets[:i] + targets[i + 1 :], inputs, seeds[:i] + seeds[i + 1 :]))
    for i, name in enumerate(step.outputs if len(inputs) > 1 else ()):
        if name not in read:
            operands = (targets, inputs[:i] + inputs[i + 1 :], seeds)
            yield replace(step, operands=operands, outputs=step.outputs[:i] + step.outputs[i + 1 :])
    for i, seed in enumerate(seeds):
        if seed is not None:
            yield replace(step, operands=(targets, inputs, (*seeds[:i], None, *seeds[i + 1 :])))


def _earlier_targets(recipe: Recipe) -> Iterator[Recipe]:
    """Differentiate the operands of a target instead."""
    made = {name: step for step in recipe.steps for name in step.outputs if step.call not in ("input", "gradients")}
    for at, step in enumerate(recipe.steps):
        for i, target in enumerate(step.operands[0] if step.call == "gradients" else ()):
            targets, inputs, seeds = step.operands
            for name in made[target].reads() if target in made else ():
                parts = ((*targets[:i], name, *targets[i + 1 :]), inputs, (*seeds[:i], None, *seeds[i + 1 :]))
                yield _with(recipe, at, replace(step, operands=parts))


def _as_inputs(recipe: Recipe) -> Iterator[Recipe]:
    """Feed the result of a step instead."""
    try:
        building = Building.of(recipe)
    except Exception:
        return
    for at in range(len(recipe.steps) - 1, -1, -1):
        step = recipe.steps[at]
        used = [name for name in step.outputs if name and any(name in other.reads() for other in recipe.steps)]
        if step.call in ("input", "gradients", "minimize", "buffer") or not used:
            continue
        new, feeds = [], dict(recipe.feeds)
        for name in used:
            value = building.value(name)
            if value is None or value.dtype in ("float16", "bfloat16"):
                break
            new.append(Step("input", (), {"dtype": value.dtype, "shape": value.shape}, (name,)))
            feeds[name] = building.array(name).copy()
        else:
            floats = tuple(s.outputs[0] for s in new if s.attributes["dtype"] in ("float32", "float64"))
            later = [_with_inputs(step, floats) for step in recipe.steps[at + 1 :]]
            for rest in (later, recipe.steps[at + 1 :]) if later != recipe.steps[at + 1 :] else (later,):
                yield replace(recipe, steps=[*recipe.steps[:at], *new, *rest], feeds=feeds)


def _with_inputs(step: Step, names: tuple[str, ...]) -> Step:
    """Gradients, for these tensors too: what was differentiated through may be at fault."""
    if step.call != "gradients" or not names:
        return step
    targets, inputs, seeds = step.operands
    new = tuple(name for name in names if name not in inputs)
    outputs = (*step.outputs, *(f"d{name}_{step.outputs[0] or 'of'}" for name in new))
    return replace(step, operands=(targets, (*inputs, *new), seeds), outputs=outputs)


def _shared(recipe: Recipe) -> Iterator[Recipe]:
    """One input in place of another one of its type."""
    inputs = [step for step in recipe.steps if step.call == "input"]
    for i, step in enumerate(inputs):
        for other in inputs[:i]:
            if step.attributes == other.attributes:
                old, new = step.outputs[0], other.outputs[0]
                steps = [s.renamed(old, new) for s in recipe.steps if s is not step]
                feeds = {k: v for k, v in recipe.feeds.items() if k != old}
                yield replace(recipe, steps=steps, feeds=feeds)


def _with(recipe: Recipe, at: int, step: Step) -> Recipe:
    return replace(recipe, steps=[*recipe.steps[:at], step, *recipe.steps[at + 1 :]])
