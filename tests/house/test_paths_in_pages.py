"""Files and folders of this tree that pages name exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOT_PAGES = [
    page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"
]  # it tells of files of users, and of before
PAGES = sorted(
    [*ROOT.glob("docs/**/*.md"), *ROOT_PAGES, ROOT / "tests" / "README.md", ROOT / "benchmarks" / "README.md"]
)

EXAMPLES = {
    ("docs/reliability.md", ".versions/"),  # made by a command
    ("docs/commands.md", "runtime.py"),  # a file of a stranger
}
"""Names that pages give to files that are not in this tree."""


@cache
def files() -> frozenset[str]:
    """Return all files that git knows, or that are there if this is no clone."""
    if (ROOT / ".git").exists():
        words = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        return frozenset(subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.split("\0"))
    return frozenset(str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file())


@cache
def ends() -> frozenset[str]:
    """Return every end of a path of a file or folder: its name, and its name after one folder or more."""
    paths = {Path(file) for file in files()}
    paths |= {parent for path in paths for parent in path.parents}
    return frozenset("/".join(path.parts[start:]) for path in paths for start in range(len(path.parts)))


@cache
def rooms() -> frozenset[str]:
    """Return the folders at the root."""
    return frozenset(Path(file).parts[0] for file in files() if "/" in file)


def faults(name: str, text: str) -> Iterator[str]:
    """Yield each path in a page that does not exist."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`([\w./-]+)`", text):
        path = span.strip("/")
        is_path = (
            span.endswith(".py") or (span.endswith("/") and path) or ("/" in span and span.split("/")[0] in rooms())
        )
        if is_path and path not in ends() and (name, span) not in EXAMPLES:
            yield span
    for path in re.findall(rf"(?<![\w/.-])(?:{'|'.join(sorted(rooms()))})/[\w/-]+\.(?:py|sh|proto)\b", text):
        if path not in files():
            yield path
    for line in re.findall(r"^ *\* package: (.*)", text, re.MULTILINE):
        spans = re.findall(r"`([\w./-]+)`", line)
        homes = {span.rstrip("/") if span.endswith("/") else str(Path(span).parent) for span in spans if "/" in span}
        for span in spans:
            if "/" not in span and not any(f"{home}/{span}" in files() for home in homes):
                yield f"{span}, in none of {', '.join(sorted(homes))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_is_there(page: Path):
    assert list(faults(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("package", ["compiler", "runtime", "prograd"])
def test_the_diagram_of_packages_has_all_of_them(package: str):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    diagram = page.partition("## Packages")[2].partition("An arrow")[0]
    assert {f"{path.parent.name}/" for path in (ROOT / package).glob("*/__init__.py")} <= {
        *re.findall(r"\w+/", diagram)
    }


def test_paths_that_are_not_there_are_seen():
    text = (
        "`watching.py` and `runtime/engines/`, `runtime/engines/other/`, `nobody/`\n\n    python tests/nothing.py 3\n"
    )
    assert list(faults("docs/x.md", text)) == ["watching.py", "runtime/engines/other/", "nobody/", "tests/nothing.py"]
    line = "    * package: `runtime/memory/limit.py`, `shortage.py`, `engine.py`\n"
    assert list(faults("docs/x.md", line)) == ["engine.py, in none of runtime/memory"]
