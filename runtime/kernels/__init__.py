"""Every kernel of the reference engine, by family. The list is the table of contents."""

from runtime.kernel import KERNELS as KERNELS
from runtime.kernels import fill as fill
