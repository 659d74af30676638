"""Draw the pictures of README and guide, by the commands that those pages show: `make pictures`.

The memory picture and the drawing of a program are what `compiler` writes. The curves come from a training run on the
native engine. The report of the native engine is text, which this script sets as an SVG file.
"""

import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs/pictures"

REPORT = "show examples/digits_cnn.pb --entry predict --engine native.avx2 --threads 2"
"""A fixed instruction set and number of threads, so that the report is the same on every machine."""

CHARACTER_WIDTH = 6.7
"""Width in pixels of a character of the report's font, at most."""

LINE_HEIGHT = 17
MARGIN = 14


def command(module: str, words: str, *paths: Path) -> str:
    """Run a command of prograd in the root of the repository, and return what it prints.

    `{0}`, `{1}` … in `words` stand for `paths`.
    """
    arguments = [word.format(*paths) for word in words.split()]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    return done.stdout


def text_picture(title: str, text: str) -> str:
    """Return an SVG drawing of text in a font of fixed width, with a command as its first line."""
    lines = [f"$ {title}", *text.rstrip().splitlines()]
    width = round(2 * MARGIN + CHARACTER_WIDTH * max(map(len, lines)))
    height = 2 * MARGIN + LINE_HEIGHT * len(lines)
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE_HEIGHT * i + 12}"{style(line, i)}>{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<style>
text {{ font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dce2; white-space: pre; }}
.command {{ fill: #7fc8a9; }}
.phase {{ fill: #e0a35c; }}
</style>
<rect width="{width}" height="{height}" rx="6" fill="#20262e"/>
{rows}
</svg>
"""


def style(line: str, number: int) -> str:
    """Return the class of a line: the command, the title of a phase, or nothing."""
    if number == 0:
        return ' class="command"'
    return ' class="phase"' if line and not line.startswith(" ") else ""


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    command("compiler", "draw examples/digits_cnn.pb -q --force -o {0}", PICTURES / "program.svg")
    command("compiler", "show examples/digits_cnn.pb -q --force --memory --svg {0}", PICTURES / "memory.svg")
    (PICTURES / "native.svg").write_text(
        text_picture(f"compiler {REPORT}", command("compiler", REPORT)), encoding="utf-8"
    )
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "digits_cnn.jsonl"
        train = "execute examples/digits_cnn.pb -q --engine native --epochs 10 --metrics {0}"
        command("runtime", train, metrics)
        command(
            "runtime", "plot {0} -q --force --metric loss --metric accuracy -o {1}", metrics, PICTURES / "curves.svg"
        )


if __name__ == "__main__":
    main()
