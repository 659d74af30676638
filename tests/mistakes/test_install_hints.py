"""The command that installs an extra, for each way in which prograd may have been installed."""

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prograd_proto.wording import install_hint

ROOT = Path(__file__).parents[2]
CLONE = 'pip install ".[plot]" in the clone of prograd'


def installed(record: dict[str, Any] | None) -> Callable[[str], Any]:
    text = None if record is None else json.dumps(record)
    return lambda name: SimpleNamespace(read_text=lambda file: text)


@pytest.mark.parametrize(
    ("record", "hint"),
    [
        (None, 'pip install "prograd[plot]"'),
        ({"url": ROOT.as_uri(), "dir_info": {"editable": True}}, f'pip install -e "{ROOT}[plot]"'),
        ({"url": ROOT.as_uri(), "dir_info": {}}, f'pip install "{ROOT}[plot]"'),
        ({"url": "file:///nowhere/my%20prograd", "dir_info": {}}, CLONE),
        (
            {"url": "https://example.org/p.git", "vcs_info": {"vcs": "git", "requested_revision": "v1"}},
            'pip install "prograd[plot] @ git+https://example.org/p.git@v1"',
        ),
        (
            {"url": "file:///tmp/prograd-0.1.0-py3-none-any.whl", "archive_info": {}},
            'pip install "prograd[plot] @ file:///tmp/prograd-0.1.0-py3-none-any.whl"',
        ),
    ],
)
def test_an_extra_is_installed_from_where_prograd_came(
    record: dict[str, Any] | None, hint: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(metadata, "distribution", installed(record))
    assert install_hint("plot") == hint


def test_a_clone_whose_path_has_a_blank_and_an_accent_is_named_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clone = tmp_path / "mon é prograd"
    clone.mkdir()
    (clone / "pyproject.toml").write_text("")
    monkeypatch.setattr(metadata, "distribution", installed({"url": clone.as_uri(), "dir_info": {"editable": True}}))
    assert install_hint("plot") == f'pip install -e "{clone}[plot]"'


def test_without_metadata_the_clone_is_named(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_hint("plot") == CLONE
