"""The tiers of the tests: which of them `make quick`, `pytest` and `make thorough` run.

quick      `make quick`: tests below 20 ms, and slower ones that a change touches
commit     `pytest`, which CI runs for every commit: all but those marked `thorough`
thorough   `make thorough`, before a release: only those marked `thorough`

`tests/slow_tests.txt` lists the functions whose tests take 20 ms or longer on average, or 0.8 s or longer together, and
each of these tests gets the mark `slow`. Those that take 0.3 s or longer on average have the word `long` behind them,
and get this mark too, unless they have the mark `rule`. `make slow-tests` measures all tests on an idle machine and
writes the list again; `make quick` ends with the names of functions that it lacks. Its lines leave out the folder of a
file, so that a file that moves keeps its marks.

With `--changed-since REVISION`, tests that the changed files touch lose the mark `slow` (see `touched_tests`).

With `--draw COMMIT`, one in `DRAWN` of the thorough tests and one in `LONG_DRAWN` of the other long ones get the mark
`drawn`. `.ci/run` runs no others of these, so a fault that only a thorough test finds is found within days, and one
that only a long test finds within a few commits. The hash of the commit draws them, so that a commit passes or fails,
always. The last lines of the output have the command that repeats each of them that fails.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import prod
from pathlib import Path
from shlex import quote
from statistics import fmean
from zlib import crc32

import pytest

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
SLOW_TESTS = TESTS / "slow_tests.txt"

SLOW_SECONDS = 0.020
"""Mean processor time from which the tests of a function are slow."""

SLOW_SECONDS_TOGETHER = 0.8
"""Total processor time from which they are slow: hundreds of quick tests of one function take long, too."""

LONG_SECONDS = 0.3
"""Mean processor time from which slow tests are long."""

LONG = " long"
"""The end of a line of the list of slow tests, if the tests of its function are long."""

DRAWN = 100
"""Each commit draws one thorough test of this number: about 20 seconds on two idle cores."""

LONG_DRAWN = 4
"""Each commit draws one long test of this number, of those that are not thorough."""

QUICK = "not thorough and not slow"
"""The expression of `-m` for the quick tier."""

LEFT_OUT = {
    "not thorough": "pytest leaves out the tests marked thorough; `make thorough` runs them",
    "not (thorough or long) or drawn": (
        "pytest leaves out the tests marked thorough or long, but for a few that the commit draws"
    ),
    QUICK: (
        "make quick leaves out the tests marked slow or thorough, except slow ones that a change touches; "
        "`make test` and `make thorough` run them"
    ),
}
"""By the expression of `-m`, what the first lines of pytest's output say about it."""

BEGIN = pytest.StashKey[float]()
"""Processor time of this process when a test began."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--changed-since", metavar="REVISION", help="run slow tests too if files changed since touch them")
    group.addoption("--draw", metavar="COMMIT", help="mark thorough tests as drawn: another share for each commit")
    group.addoption("--write-slow-tests", action="store_true", help="measure, and write tests/slow_tests.txt")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.write_slow_tests or config.option.markexpr == QUICK:
        config.pluginmanager.register(Stopwatch())


def pytest_report_header(config: pytest.Config) -> str | None:
    return LEFT_OUT.get(config.option.markexpr)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for cases in functions(items):
        of = prod(mark.args[0] for mark in cases[0].iter_markers("sampled"))
        for number, case in enumerate(cases):
            if not is_sampled(number, of):
                case.add_marker("thorough")
    listed, changed, commit = listed_tests(), config.option.changed_since, config.option.draw
    touched = touched_tests(changed_files(changed)) if changed else set[Path]()
    for item in items:
        is_long = listed.get(function_name(item.nodeid))
        of = DRAWN if item.get_closest_marker("thorough") else LONG_DRAWN if is_long else 0
        if is_long and not item.get_closest_marker("rule"):
            item.add_marker("long")
        if commit and of and is_drawn(item.nodeid, commit, of):
            item.add_marker("drawn")
        if is_long is not None and item.path not in touched:
            item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the command that repeats each drawn test that has failed, which `pytest` alone leaves out."""
    for report in [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]:
        if "drawn" in getattr(report, "keywords", ()):  # a file that is not collected has none
            terminalreporter.write_line(f'repeat with: CI=1 .venv/bin/pytest -m "" {quote(report.nodeid)}')


def is_sampled(number: int, of: int) -> bool:
    """Return True for one case of each `of`, another one in each turn: no value of a second parameter is missed."""
    return (number + number // of) % of == 0


def is_drawn(nodeid: str, commit: str, of: int) -> bool:
    """Return True for one test of each `of`, by the hash of a commit."""
    return (crc32(nodeid.encode()) - int(commit, 16)) % of == 0


def functions(items: Iterable[pytest.Item]) -> Iterable[list[pytest.Item]]:
    """Return the cases of each function."""
    found: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        found[item.nodeid.partition("[")[0]].append(item)
    return found.values()


def function_name(nodeid: str) -> str:
    """Return the file and the function of a test, without folder and parameters."""
    path, _, function = nodeid.partition("[")[0].partition("::")
    return f"{Path(path).name}::{function}"


def listed_tests() -> dict[str, bool]:
    """Return the functions of the list of slow tests, and which of them are long."""
    lines = SLOW_TESTS.read_text(encoding="utf-8").splitlines()
    return {line.removesuffix(LONG): line.endswith(LONG) for line in lines}


def changed_files(revision: str) -> list[Path]:
    """Return the files that differ from `revision`, and those that git does not know yet."""
    differing = git("diff", "--name-only", "--relative", revision)
    return [ROOT / name for name in [*differing, *git("ls-files", "--others", "--exclude-standard")]]


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise pytest.UsageError(f"--changed-since: git {arguments[0]} fails: {done.stderr.strip()}")
    return done.stdout.splitlines()


def touched_tests(changed: Iterable[Path]) -> set[Path]:
    """Return the test files that the changed files touch.

    1. A changed test file touches itself, and `name.py` touches `test_name.py`.
    2. A changed module touches the test files that import it.
    3. If no test file imports it, it touches those of the modules that import it, and so on outwards.
    """
    python = {path for path in changed if path.suffix == ".py" and path.exists()}
    imports = {path: imported_modules(path) for path in source_files()}
    touched = {path for path in imports if path in python and is_test(path)}
    for path in python - touched:
        touched |= {test for test in imports if test.name == f"test_{path.name}"}
        touched |= nearest_tests(path, imports)
    return touched


def nearest_tests(path: Path, imports: dict[Path, frozenset[str]]) -> set[Path]:
    """Return the test files that import the module of `path` over the fewest other modules."""
    importers: defaultdict[str, set[Path]] = defaultdict(set)
    for importer, modules in imports.items():
        for module in modules:
            importers[module].add(importer)
    seen, front = {path}, {path}
    while front:
        front = {importer for module in front for importer in importers[module_name(module)]} - seen
        if tests := {importer for importer in front if is_test(importer)}:
            return tests
        seen |= front
    return set()


def source_files() -> Iterator[Path]:
    """Yield every Python file of the packages and of the tests."""
    for folder in ("proto", "registry", "compiler", "runtime", "prograd", "tests"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def is_test(path: Path) -> bool:
    return path.name.startswith("test_")


def module_name(path: Path) -> str:
    """Return the name that other files import a file by."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[parts[0] in ("proto", "tests") :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


IMPORT = re.compile(r"^ *(?:from ([\w.]+) )?import (?:\(([^)]*)\)|([^\n(;#]+))", re.MULTILINE)
"""An import, also one of a script that stands in a string; a search is thirty times as fast as a syntax tree."""


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Return the names of what a file imports; of `from a import b` both `a` and `a.b`."""
    names: set[str] = set()
    for module, several, one in IMPORT.findall(path.read_text(encoding="utf-8")):
        imported = re.findall(r"([\w.]+)(?: as \w+)?", re.sub("#.*", "", several or one))
        names |= {module, *(f"{module}.{name}" for name in imported)} if module else {*imported}
    return frozenset(names)


class Stopwatch:
    """Measures every test, with its fixtures and commands, and in the end writes the list, or names what it lacks.

    It counts processor time, which other programs of the machine do not prolong.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[BEGIN] = processor_seconds()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":
            item.user_properties.append(("processor_seconds", processor_seconds() - item.stash[BEGIN]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "processor_seconds":
                self.seconds[report.nodeid] = float(str(value))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.config.option.write_slow_tests and not hasattr(session.config, "workerinput"):
            SLOW_TESTS.write_text("".join(f"{line}\n" for line in lines_of(self.seconds)), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        unlisted = sorted(slow_functions(self.seconds, times=5).keys() - listed_tests().keys())
        if unlisted and not config.option.write_slow_tests:
            terminalreporter.write_line(unlisted_sentence(unlisted))


def unlisted_sentence(unlisted: Sequence[str]) -> str:
    """Return what the quick tier says about functions that take five times as long as a quick test may."""
    more = f" and {len(unlisted) - 5} more" if len(unlisted) > 5 else ""
    return f"slow, but not in tests/slow_tests.txt, which `make slow-tests` writes: {', '.join(unlisted[:5])}{more}"


def processor_seconds() -> float:
    """Return the processor time of this process and of the commands that it has run."""
    import resource  # which Windows lacks

    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def slow_functions(seconds: dict[str, float], times: float = 1) -> dict[str, float]:
    """Return the functions whose tests are slow on average or together, with the mean, for the seconds of all tests.

    With `times=5`, those that take five times as long as a quick test may.
    """
    functions: defaultdict[str, list[float]] = defaultdict(list)
    for nodeid, measured in seconds.items():
        functions[function_name(nodeid)].append(measured)
    return {
        name: fmean(measured)
        for name, measured in functions.items()
        if fmean(measured) >= times * SLOW_SECONDS or sum(measured) >= times * SLOW_SECONDS_TOGETHER
    }


def lines_of(seconds: dict[str, float]) -> list[str]:
    """Return the lines of the list of slow tests, for the measured seconds of all tests."""
    return sorted(name + LONG * (mean >= LONG_SECONDS) for name, mean in slow_functions(seconds).items())
