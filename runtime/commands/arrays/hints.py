"""Notes about predictions that are not shown, or not in the units of their column."""

from __future__ import annotations

from collections.abc import Callable, Collection

from runtime.runs.raw.answers import Answer, answers_of
from runtime.runs.run import Run


def hint_at_outputs(
    run: Run, entry: str, printed: Collection[str], say: Callable[[str], object], *, is_shown: bool
) -> None:
    """Say how to see the predictions of an entry, and which of those that are printed are scaled.

    Args:
        run: run of the program.
        entry: entry that computed predictions.
        printed: fetches that are printed as the program computes them.
        say: prints a sentence.
        is_shown: False if nothing of the entry is printed, written or compared.
    """
    fetches = [fetch.name for fetch in run.session.bindings(entry)[0].block.fetches]
    answers = [answer for answer in _answers(run, entry) if not answer.is_array]
    if not is_shown and fetches:
        decoded = next((f"--out predictions.csv, or for {_shown(answer)}" for answer in answers), None)
        name = fetches[0]
        asked = decoded or f"--fetch {name}, or for --fetch {name}=@{name}.npy"
        say(f"nothing of the entry {entry!r} is printed or written; ask for {asked}")
    for answer in answers:
        if answer.fetch in printed and answer.is_scaled:
            say(f"{answer.fetch!r} is printed as the program computes it; {_shown(answer)} gives values of the column")


def _answers(run: Run, entry: str) -> list[Answer]:
    data, bound = run.session.data, run.session.bindings(entry)[0]
    return answers_of(run.program, bound, data.encoding(), is_quiet=True) if data.is_encoded else []


def _shown(answer: Answer) -> str:
    """Return the option that prints the values of an answer, or the elements of several columns."""
    if answer.column is None:
        return f"--fetch {answer.fetch}"
    return f"--decode {answer.fetch}{'' if answer.column.name == answer.fetch else f'={answer.column.name}'}"
