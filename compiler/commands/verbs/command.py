"""The command `compiler`: its verbs in the order of help, and the words that name one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.commands.imports.format_of import IMPORTS, format_of
from compiler.commands.verbs.data import DATA_PACK, DATA_SHOW
from compiler.commands.verbs.imports import IMPORT_LM, IMPORT_ONNX, IMPORT_TORCH
from compiler.commands.verbs.models import BUILD, COMPARE, EXPORT, GRADCHECK, MERGE, QUANTIZE
from compiler.commands.verbs.programs import COMPILE, FREEZE, PLAN, THAW
from compiler.commands.verbs.views import CHECK, DIFF, DRAW, OPS, PASSES, SHOW, SUMMARY
from runtime.command_line.tables import COMPLETION, Command, verbs_by_name

COMMAND: Final = Command(
    "compiler",
    "compiler.commands",
    "Inspect, check and compile program files.",
    verbs_by_name(
        *(SHOW, SUMMARY, DRAW, CHECK, COMPILE, DIFF, FREEZE, THAW, PLAN, PASSES, OPS),
        *(IMPORT_ONNX, IMPORT_TORCH, IMPORT_LM, EXPORT, COMPARE, GRADCHECK, MERGE, QUANTIZE, BUILD),
        *(DATA_PACK, DATA_SHOW, COMPLETION),
    ),
)


def with_verbs_of_two_words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `data` or `import` and the next word as one word.

    `import model.onnx` and `import net.pt2` are completed by the suffix of the file, `import nets:make` by its colon.
    """
    words = list(arguments)
    at = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    verb = words[at] if at < len(words) else ""
    if verb not in ("data", "import") or len(words) == at + 1 or words[at + 1] in ("-h", "--help"):
        return words
    if verb == "import" and words[at + 1] not in IMPORTS:
        kind = format_of(words[at + 1 :])
        if kind is not None:
            words[at] = f"import {kind}"
        return words
    words[at : at + 2] = [" ".join(words[at : at + 2])]
    return words
