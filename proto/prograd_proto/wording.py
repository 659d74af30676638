"""Words of errors that depend on the caller: options or arguments, and the command that installs an extra."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_commands: list[str] = []
"""Names of the commands that run in this process: one in the process of a command, none in a Python program."""


def as_asked(option: str, argument: str) -> str:
    """Return the words by which the caller asks for something.

    Args:
        option: words of the command line, as in "--force".
        argument: words of Python, as in "force=True".
    """
    return option if _commands else argument


def command_name() -> str:
    """Return the name of the command that runs, or "prograd" in a Python program."""
    return _commands[-1] if _commands else "prograd"


@contextmanager
def words_of_a_command(name: str) -> Generator[None]:
    """Let `as_asked` return options, and `command_name` this name, in all threads until the block ends."""
    _commands.append(name)
    try:
        yield
    finally:
        _commands.pop()


def install_hint(extra: str) -> str:
    """Return the command that installs an extra from where prograd was installed: a clone, a URL or an index.

    An example is `pip install -e "/home/me/prograd[plot]"`. pip records where it took a package from, in
    `direct_url.json` beside its metadata (PEP 610).
    """
    found = _record()
    if found is None:
        return f'pip install ".[{extra}]" in the clone of prograd'
    url = str(found.get("url", ""))
    if not url:
        return f'pip install "prograd[{extra}]"'
    if "dir_info" in found:
        folder = unquote(urlsplit(url).path)
        if not Path(folder, "pyproject.toml").is_file():  # the clone was moved
            return f'pip install ".[{extra}]" in the clone of prograd'
        editable = "-e " if found["dir_info"].get("editable") else ""
        return f'pip install {editable}"{folder}[{extra}]"'
    version = found.get("vcs_info", {})
    revision = f"@{version['requested_revision']}" if "requested_revision" in version else ""
    return f'pip install "prograd[{extra}] @ {version["vcs"] + "+" if version else ""}{url}{revision}"'


def own_version() -> str:
    """Return the version of prograd; "unknown" if it runs from sources that nothing installed."""
    metadata = import_module("importlib.metadata")
    try:
        return metadata.version("prograd")
    except metadata.PackageNotFoundError:
        return "unknown"


def _record() -> dict[str, Any] | None:
    """Return pip's record of the source; {} for an index, None for a prograd that pip did not install."""
    metadata = import_module("importlib.metadata")  # slow to import, and needed only for hints
    try:
        text = metadata.distribution("prograd").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    return json.loads(text) if text else {}
