"""Messages of PyTorch: texts that it prints and logs besides raising errors, and the sentences of these errors."""

from __future__ import annotations

import logging
import re
import sys
import traceback
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO, TextIOBase
from pathlib import Path
from typing import Any, Final

from compiler.frontends.torch.operators import REMEDIES

DATA_DEPENDENT: Final = "data-dependent expression"
"""Words of each error about Python code that needs an element of a tensor."""

FAKE_CONSTANT: Final = "fake tensor in the exported program constant's list"
"""Words of the error about writes that torch.export cannot trace."""
TRANSFORMS: Final = ("_functorch/eager_transforms.py", "_functorch/apis.py", "_functorch/vmap.py")
"""Files of the transforms of torch.func."""

DISTRIBUTIONS: Final = "torch/distributions/distribution.py"
"""The file in which distributions check their parameters and values."""

UNKNOWN_RESULT: Final = re.compile(r"Found <class '([\w.]+)'> in output, which is not a known type")
"""Words of the error about results that are neither tensors nor lists, tuples or mappings of them."""


class _WithoutTorch(TextIOBase):
    """A text stream that drops texts that functions of PyTorch print, and passes on all others."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, unless a module of PyTorch calls."""
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))  # pyright: ignore[reportPrivateUsage]: as above
        if caller.partition(".")[0] != "torch":
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()


@contextmanager
def without_messages() -> Generator[None]:
    """Suppress warnings, logged tracebacks and printed graphs of PyTorch: it also raises these errors.

    Text that the user's own code prints to standard error appears.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(_WithoutTorch(sys.stderr)):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def without_text() -> Generator[None]:
    """Suppress texts of the user's own code: they have been printed already."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        yield


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text that is not blank, or the name of its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def reason_of(error: BaseException) -> str:
    """Return the reason why torch.export failed, with the line of the user's source that it had reached."""
    reason = first_line(error)
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if DATA_DEPENDENT in reason and any(file.endswith(DISTRIBUTIONS) for file in files):
        reason = "a distribution checks the elements of its tensors; pass it validate_args=False"
    if DATA_DEPENDENT in reason:
        reason = "its Python code needs an element of a tensor, as in `if x.sum() > 0`; use torch.where or torch.cond"
    if reason in REMEDIES:
        reason = f"{reason} has no counterpart; {REMEDIES[reason]}"
    if FAKE_CONSTANT in reason:
        reason = (
            "forward calls torch.autograd.grad, or writes a tensor through `.data` or one that is neither an input, a "
            "parameter nor a buffer"
        )
    if any(file.endswith(TRANSFORMS) for file in files):
        reason = f"forward calls a transform of torch.func, as grad or vmap of it, which is not traced ({reason})"
    if found := UNKNOWN_RESULT.match(reason):
        cache = ", as by module.config.use_cache = False" if "cache" in found[1].lower() else ""
        reason = f"its result has a {found[1].rpartition('.')[2]}, which is no tensor; leave it out{cache}"
    place = _place(error)
    return f"{reason} (at {place})" if place else reason


def calling_line() -> str:
    """Return file and line of the innermost call outside PyTorch and prograd; "" if there is none."""
    return _line_of_user(traceback.extract_stack())


def _place(error: BaseException) -> str:
    """Return file and line of the innermost call in the trace of an error, outside PyTorch and prograd, or ""."""
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    for each in chain:
        if line := _line_of_user(traceback.extract_tb(each.__traceback__)):
            return line
    return ""


def _line_of_user(frames: traceback.StackSummary) -> str:
    return next((f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames) if is_users(frame)), "")


def is_users(frame: Any) -> bool:
    """Return True for a frame of a file that is neither PyTorch's nor prograd's."""
    torchs = str(Path(str(sys.modules["torch"].__file__)).parent)
    return not frame.filename.startswith((torchs, str(Path(__file__).parents[2]), "<"))
