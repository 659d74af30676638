"""What `make site` has beside docs/: pages of the repository that docs link to, and a list of the decisions."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

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


def on_page_markdown(markdown: str, **page: object) -> str:
    """Lead links out of docs/ to the pages of the site."""
    for path, name in BESIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)?{re.escape(path)}", f"]({name}", markdown)
    return markdown.replace("](decisions/)", "](decisions/index.md)")
