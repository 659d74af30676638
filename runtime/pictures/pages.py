"""A page as SVG, PNG or HTML, the same bytes for the same figure."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, Final

from runtime.errors import UsageError
from runtime.extras import extra

SUFFIXES: Final = (".svg", ".png", ".html")

_HTML: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>prograd</title></head>
<body style="margin:1em;background:white">
{}
</body></html>
"""


def require_suffix(path: Path) -> None:
    """Raise UsageError for a file whose suffix names none of the supported formats."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: a picture is called {', '.join(f'*{suffix}' for suffix in SUFFIXES)}")


def written(figure: Any, suffix: str) -> bytes:
    """Return the bytes of a figure; an HTML page needs no other file."""
    matplotlib = extra("matplotlib", "plot", "runtime plot")
    out = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "prograd", "svg.fonttype": "none"}):
        if suffix == ".png":
            figure.savefig(out, format="png", dpi=120, metadata={"Software": None})
            return out.getvalue()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    if suffix == ".svg":
        return out.getvalue()
    svg = out.getvalue().decode()
    return _HTML.format(svg[svg.index("<svg") :]).encode()
