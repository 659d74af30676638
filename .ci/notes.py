"""Print the notes of a release: its section of CHANGELOG.md.

python .ci/notes.py 0.1.0
"""

import re
import sys
from pathlib import Path


def notes(changelog: str, version: str) -> str:
    """Return the section of a version; raise SystemExit if there is none."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    found = [text.partition("\n")[2].strip() for text in sections if text.split()[0].rstrip(",") == version]
    if len(found) != 1:
        raise SystemExit(f"release: CHANGELOG.md has {len(found) or 'no'} sections of {version}; write one")
    return f"# prograd {version}\n\n{found[0]}\n"


if __name__ == "__main__":
    print(notes(Path("CHANGELOG.md").read_text(encoding="utf-8"), sys.argv[1]), end="")
