"""A chain of hashes through a training run.

1. Each step has a digest: the first four bytes of the SHA-256 of its metrics, with all their digits.
2. A link has the hash of all states after a step, at a fixed interval and at the end of each epoch, and the digests of
   the steps since the link before.
3. The hash of a link covers the hash of the one before it, so that no link can be changed alone. The first one covers
   the hash of the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

from runtime.errors import DataError
from runtime.runs.events import EpochEnd, Event, StepEnd
from runtime.runs.metrics import Metrics

DIGITS: Final = 8
"""Hexadecimal digits of the digest of a step."""

HASH: Final = re.compile("[0-9a-f]{64}")


class Link(NamedTuple):
    """The states at one moment of a run.

    Attributes:
        step: number of steps that were made.
        state_sha256: hash of all states.
        closes: True if an epoch was closed here: settings may have changed, and sums over an epoch begin anew.
        steps: the digests of the steps since the link before, one after the other.
        sha256: hash of all this and of the link before.
    """

    step: int
    state_sha256: str
    closes: bool
    steps: str
    sha256: str


class Chain:
    """The links of a run, which grow with its events.

    Attributes:
        every: steps between two links.
        links: the links so far; the first one has the states at the start.
        open: the digests of the steps since the last link.
    """

    def __init__(self, every: int, program_sha256: str, states_sha256: Callable[[], str]) -> None:
        """Begin without links; `states_sha256` returns the hash of the present states."""
        self.every = every
        self.links: list[Link] = []
        self.open = ""
        self._program_sha256, self._states_sha256 = program_sha256, states_sha256

    def begin(self, step: int) -> None:
        """Add the first link, after this number of steps."""
        self._add(step, "", closes=False)

    def go_on(self, links: Sequence[Link], digests: str, step: int) -> None:
        """Take the links of an earlier process up to a step; `digests` are those of the steps after its last link.

        Raises DataError if it has not come as far.
        """
        kept = [link for link in links if link.step <= step]
        known = "".join(link.steps for link in links) + digests
        begin = links[0].step if links else 0
        if not kept or len(known) < DIGITS * (step - begin):
            there = begin + len(known) // DIGITS
            raise DataError(f"the chain of the run ends at step {there}, and the checkpoint is of step {step}")
        self.links = kept
        self.open = known[DIGITS * (kept[-1].step - begin) : DIGITS * (step - begin)]

    def take(self, event: Event) -> None:
        """Add what an event says; the states are those after it."""
        if isinstance(event, StepEnd):
            self.open += step_digest(event.metrics)
            if event.step % self.every == 0:
                self._add(event.step, self.open, closes=False)
        elif isinstance(event, EpochEnd):
            last = self.links[-1]
            if last.step == event.step:
                self.links.pop()
            self._add(event.step, last.steps if last.step == event.step else self.open, closes=True)

    def _add(self, step: int, steps: str, *, closes: bool) -> None:
        before = self.links[-1].sha256 if self.links else self._program_sha256
        self.links.append(linked(before, step, self._states_sha256(), closes=closes, steps=steps))
        self.open = ""


def step_digest(metrics: Metrics) -> str:
    """Return the digest of a step."""
    text = ",".join(f"{name}={metrics[name]!r}" for name in sorted(metrics))
    return sha256(text.encode()).hexdigest()[:DIGITS]


def linked(before: str, step: int, state_sha256: str, *, closes: bool, steps: str) -> Link:
    """Return a link after one with the hash `before`."""
    text = f"{before} {step} {state_sha256} {int(closes)} {steps}"
    return Link(step, state_sha256, closes, steps, sha256(text.encode()).hexdigest())


def to_json(links: Iterable[Link]) -> list[dict[str, object]]:
    """Return links as JSON values."""
    return [link._asdict() for link in links]


def from_json(found: object, program_sha256: str) -> list[Link]:
    """Return links from JSON values; raise ValueError unless they are a whole chain of this program."""
    if not isinstance(found, list) or not found:
        raise ValueError("its chain is no list of links")
    links: list[Link] = []
    for value in cast("list[object]", found):
        link = _link(value)
        before = links[-1] if links else None
        steps = link.step - (before.step if before else link.step)
        made = linked(
            before.sha256 if before else program_sha256,
            link.step,
            link.state_sha256,
            closes=link.closes,
            steps=link.steps,
        )
        if made != link or steps < 0 or len(link.steps) != DIGITS * steps:
            raise ValueError(f"the link of its chain at step {link.step} does not have the hash that it names")
        links.append(link)
    return links


def _link(value: object) -> Link:
    kinds: Mapping[str, type] = {"step": int, "state_sha256": str, "closes": bool, "steps": str, "sha256": str}
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if fields.keys() != kinds.keys() or any(type(fields[name]) is not kind for name, kind in kinds.items()):
        raise ValueError("its chain has a link that is not a step with its hashes")
    link = Link(**fields)
    hashes = HASH.fullmatch(link.state_sha256) and re.fullmatch("[0-9a-f]*", link.steps)
    if not 0 <= link.step < 1 << 63 or not hashes:
        raise ValueError(f"the link of its chain at step {link.step} has no hash of states and steps")
    return link
