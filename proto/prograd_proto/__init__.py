"""The treaty between compiler and runtime: messages, dtypes, files, text and upgrades.

* `program_pb2`: the generated messages of program.proto
* `dtypes`: element types by name; `elements`: their bytes
* `tensor_types`: TensorType and shapes in Python
* `blocks`: what a block says, read once
* `attributes`: attribute messages to Python values and back
* `files`: load and save; `atomic`: how a file is replaced
* `identity`: the hash of a program, the hash of states
* `text`: the readable form that parses back
* `upgrades`: old operators and formats to today's
* `plugins`: operators and kernels of other packages, loaded by name
"""

from prograd_proto.attributes import Attribute as Attribute
from prograd_proto.attributes import attributes_of as attributes_of
from prograd_proto.errors import PluginError as PluginError
from prograd_proto.errors import ProgramError as ProgramError
from prograd_proto.tensor_types import Shape as Shape
from prograd_proto.tensor_types import TensorType as TensorType
from prograd_proto.tensor_types import type_of as type_of
