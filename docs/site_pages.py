"""What `make site` has beside docs/: pages of the repository that docs link to, and a list of the decisions."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
BESIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Pages outside docs/, and what they are called on the site."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and the list of the decisions."""
    from mkdocs.structure.files import File

    for path, name in BESIDE.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text(encoding="utf-8")))
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    titles = [path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for path in decisions]
    listed = [f"* [{title}]({path.name})" for title, path in zip(titles, decisions, strict=True)]
    files.append(File.generated(config, "decisions/index.md", content="# Decisions\n\n" + "\n".join(listed) + "\n"))
    return files


def on_page_markdown(markdown: str, *, page: Page, **more: object) -> str:
    """Lead links to the pages of the site."""
    paths = {name: path for path, name in BESIDE.items()}
    return with_links_of_the_site(markdown, paths.get(page.file.src_uri, f"docs/{page.file.src_uri}"))


def with_links_of_the_site(markdown: str, path: str) -> str:
    """Return the text of a page, by its path in the repository; links to what is no page of the site become text."""
    here = posixpath.dirname(_page(path) or "")

    def led(link: re.Match[str]) -> str:
        text, target, anchor = link.groups(default="")
        page = _page(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))
        return text if page is None else f"[{text}]({posixpath.relpath(page, here or '.')}{anchor})"

    return re.sub(r"(?<!!)\[([^][]*)\]\((?!\w+:)([^()#\s]+)(#[^()\s]*)?\)", led, markdown)


def _page(path: str) -> str | None:
    """Return the page of the site for a path in the repository; None if there is none."""
    if path == "docs/decisions":
        return "decisions/index.md"
    return BESIDE.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
