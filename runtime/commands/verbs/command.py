"""The command `runtime`: its verbs in the order of help."""

from __future__ import annotations

from typing import Final

from runtime.command_line.tables import COMPLETION, Command, verbs_by_name
from runtime.commands.verbs.measuring import BENCH, CACHE, CHECK, PLOT, PROFILE
from runtime.commands.verbs.running import AUDIT, EXECUTE, REPLAY
from runtime.commands.verbs.serving import CHAT, SERVE
from runtime.commands.verbs.sweeping import SWEEP

COMMAND: Final = Command(
    "runtime",
    "runtime.commands",
    "Load, check and run program files.",
    verbs_by_name(EXECUTE, REPLAY, AUDIT, CHECK, PROFILE, BENCH, CACHE, SWEEP, SERVE, CHAT, PLOT, COMPLETION),
)
