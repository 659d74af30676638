import gc
import os
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tiers", "optional_packages")

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile(
    "prograd",
    deadline=None,  # no test depends on the clock
    suppress_health_check=[HealthCheck.too_slow],  # nor on how fast examples are made
    derandomize="CI" in os.environ,  # a commit passes or fails, always; new examples are for developers
)
settings.load_profile("prograd")

for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # commands inherit what a shell in the background ignores
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)

os.environ["PROGRAD_ENGINE"] = "reference"  # tests of the native engine name it
os.environ["PROGRAD_CACHE"] = ""  # no test writes into the cache of who runs it, nor reads there; nor do its commands


@pytest.fixture(scope="session", autouse=True)
def cache_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where tests keep compiled code."""
    os.environ.pop("PYTEST_ADDOPTS", None)  # for this run, not for those that tests start
    folder = tmp_path_factory.mktemp("compiled", numbered=True)
    os.environ["PROGRAD_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """Let no test wait for the disk: the machine does not lose power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def resident_compiler() -> Iterator[None]:
    """Let LLVM keep its memory: the tests of a process compile hundreds of modules, one after the other."""
    from runtime.engines.native import compiled, jit

    with pytest.MonkeyPatch.context() as patch:
        for module in (compiled, jit):
            patch.setattr(module, "give_back", lambda: None)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what the code gives now")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str | bytes], None]:
    """golden(name, content): `content` is what the file of that name in tests/golden holds."""

    def check(name: str, content: str | bytes) -> None:
        path = GOLDEN / name
        raw = content.encode() if isinstance(content, str) else content
        if request.config.getoption("--update-golden"):
            path.write_bytes(raw)
        expected = path.read_bytes()
        if isinstance(content, str):  # pytest shows the differing lines
            assert content == expected.decode()
        assert raw == expected

    return check


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(here: Path) -> Path:
    """A working directory with `p.pb` and its rows."""
    from subjects.small_programs import rich, save  # slow to import

    save(rich(), here)
    return here


STATES: dict[tuple[str, str], dict[str, Any]] = {}
"""The state of each generator of a test file when the first test of the process began, by file and name."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let each test draw the same numbers whatever tests of its file ran before it in this process."""
    names = vars(item.module) if isinstance(item, pytest.Function) else {}
    for name, value in names.items():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = STATES.setdefault((names["__name__"], name), value.bit_generator.state)


def pytest_collection_finish() -> None:
    """Let collections of garbage skip the tests, of which there are tens of thousands."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def untraced() -> Iterator[None]:
    """Refuse a file whose tests leave `tracemalloc` on, which would make all later tests five times as slow."""
    yield
    assert not tracemalloc.is_tracing(), "a test of this file left tracemalloc on: use oracles.allocation.traced"


@pytest.fixture(autouse=True, scope="module")
def unalarmed() -> Iterator[None]:
    """Refuse a file whose tests leave a handler of alarms, with which no later run could end at its limit of time."""
    yield
    if hasattr(signal, "SIGALRM"):
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL, "a test of this file left a handler of SIGALRM"
