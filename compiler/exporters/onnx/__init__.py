"""Programs as ONNX files.

to_onnx      the function that users call
model        a model: its names, its weights, and the message
graph        the nodes of a graph, and tensors in the order that a node asks for
tensors      a tensor of a program as a tensor of a graph
call         an op with its operands, and mappings made of functions
walk         the walk over the ops of a block
choices      choices that are known outside of training, made before the walk
folding      ops whose results are known while exporting
raw_columns  the encoding of columns as nodes
own_domain   every op as a node of a domain of our own, for viewing
states       the run whose states are exported
finishing    results get their names, and the checker reads the model
like         names and metadata of the file that a program was imported from
widened      programs with mixed precision as float32 programs
written      a model as a file, with large weights beside it
"""
