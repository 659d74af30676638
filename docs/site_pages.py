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
    """Add the pages; their links to docs/ are links to neighbours, and those to code are text."""
    from mkdocs.structure.files import File

    for path, name in BESIDE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        text = re.sub(r"\]\((?:\.\./)?docs/([^)]*)\)", r"](\1)", text)
        files.append(
            File.generated(config, name, content=re.sub(r"\[([^]]*)\]\((?!\w[\w/-]*\.md|#)[^)]*\)", r"\1", text))
        )
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    titles = [path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for path in decisions]
    listed = [f"* [{title}]({path.name})" for title, path in zip(titles, decisions, strict=True)]
    files.append(File.generated(config, "decisions/index.md", content="# Decisions\n\n" + "\n".join(listed) + "\n"))
    return files


def on_page_markdown(markdown: str, *, page: Page, **more: object) -> str:
    """Lead links out of docs/ to the pages of the site."""
    return with_links_of_the_site(markdown, page.file.src_uri)


def with_links_of_the_site(markdown: str, page: str) -> str:
    """Return a page of docs/ whose links to other files of the repository lead to pages of the site, or are text."""
    folder = posixpath.dirname(page)

    def led(link: re.Match[str]) -> str:
        text, path, anchor = link.groups(default="")
        there = path if path in BESIDE else posixpath.normpath(posixpath.join("docs", folder, path))
        if there in BESIDE:
            return f"[{text}]({posixpath.relpath(BESIDE[there], folder or '.')}{anchor})"
        return link[0] if there.startswith("docs/") else text

    markdown = re.sub(r"(?<!!)\[([^][]*)\]\((?!\w+:)([^()#\s]+)(#[^()\s]*)?\)", led, markdown)
    return markdown.replace("](decisions/)", "](decisions/index.md)")
