"""What can go wrong while a program runs; the command's exit code follows from the class."""


class ExecutionError(RuntimeError):
    """A run cannot go on."""


class DataError(ExecutionError):
    """Rows, feeds or files do not fit the program."""


class NonFinite(ExecutionError):
    """A tensor has NaN or Inf where it must not."""


class ResourceLimit(ExecutionError):
    """Memory, time or disk space ran out, or a limit that was asked for is reached."""


class UsageError(ExecutionError):
    """What was asked of a run does not exist, or contradicts itself."""
