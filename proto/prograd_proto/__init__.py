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
* `lifespans`: what the lifespans of states say about a block
* `entry_views`: what entries are fed and fetch, for prompts and notebooks
* `ragged_names`: of arrays in a data file whose rows are of unequal length
* `settings`: the scalar states that a run may be given other values of
* `errors`: what a program can cause by itself, and what a plugin can; `os_errors`: what the system says of a file
* `regular_files`: opening regular files and nothing else; `file_patterns`: several files by one name
* `file_forms`: names of files whose suffix promises another format
* `printable`: whatever leaves for a terminal or a table: one line, of bounded length, that does nothing
* `spelling`: the closest known name, or all; `byte_sizes`: sizes as people write them
* `better`: which values of a metric are better, as far as its name says
* `wording`: options in errors of commands, arguments in errors of Python programs
"""

from prograd_proto.attributes import Attribute as Attribute
from prograd_proto.attributes import attributes_of as attributes_of
from prograd_proto.errors import PluginError as PluginError
from prograd_proto.errors import ProgramError as ProgramError
from prograd_proto.tensor_types import Shape as Shape
from prograd_proto.tensor_types import TensorType as TensorType
from prograd_proto.tensor_types import type_of as type_of
