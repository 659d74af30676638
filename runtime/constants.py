"""The constants of a program as arrays."""

from __future__ import annotations

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array, numpy_dtype
from runtime.operators import CONTRACTS


def constant_array(tensor: pb.SmallTensor) -> Array:
    """Return the elements of a tensor in this machine's byte order, read-only.

    Raises ProgramError if the tensor is malformed.
    """
    [type] = CONTRACTS["constant"].rule.results(value=tensor)
    dtype = numpy_dtype(type.dtype)
    array = np.frombuffer(tensor.data, dtype.newbyteorder("<")).astype(dtype).reshape(type.static_shape)
    array.flags.writeable = False
    return array
