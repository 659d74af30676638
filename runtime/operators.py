"""Every operator of this runtime, by its contract.

The rule of an operator stands beside its kernel for the reference engine, in the file of its family, so that both are
written together. Importing the families fills the table.
"""

from __future__ import annotations

import runtime.engines.reference.kernels  # noqa: F401  # pyright: ignore[reportUnusedImport]: fills CONTRACTS
from runtime.contract import CONTRACTS as CONTRACTS
from runtime.contract import Contract as Contract
