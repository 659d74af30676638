"""The shared schema and I/O of compiler and runtime: messages, dtypes, files, text and upgrades.

* `program_pb2`: the generated messages of program.proto
* `dtypes`: element types by name; `elements`: their bytes
* `tensor_types`: TensorType and shapes in Python
* `limits`: maximum sizes of a program
* `blocks`: blocks as Python lists, read once
* `result_types`: the types of the results of every operator
* `attributes`: attribute messages to Python values and back
* `files`: load and save; `atomic`: atomic replacement of a file
* `identity`: the hash of a program, the hash of states
* `text`: the readable form that parses back
* `upgrades`: old operators and formats to the current ones
* `plugins`: operators and kernels of other packages, loaded by name
* `states`: how long states last, and those of quantisation-aware training, by their names
* `entry_views`: the feeds and fetches of entries, for prompts and notebooks, and their spellings in an imported file
* `ragged_names`: names of arrays in a data file whose rows have unequal lengths
* `pass_order`: passes, and the check of their order by the facts that they require and establish
* `settings`: the scalar states whose values a run may replace
* `errors`: errors caused by a program or a plugin
* `regular_files`: opening regular files only
* `file_names`: several files by one name, and suffixes that promise another format
* `printable`: text for a terminal or a table: one line, of bounded length, without control characters
* `spelling`: the closest known name, or all; `byte_sizes`: sizes in the notation of users
* `better`: the better direction of a metric, as far as its name tells
* `argument_kinds`: sentences for arguments of another kind than declared
* `wording`: options in errors of commands, arguments in errors of Python programs, and hints to install an extra
"""

from prograd_proto.attributes import Attribute as Attribute
from prograd_proto.attributes import attributes_of as attributes_of
from prograd_proto.errors import PluginError as PluginError
from prograd_proto.errors import ProgramError as ProgramError
from prograd_proto.tensor_types import Shape as Shape
from prograd_proto.tensor_types import TensorType as TensorType
from prograd_proto.tensor_types import type_of as type_of
