from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


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
