"""ONNX files as programs.

from_onnx     the function that users call
remedies      what can be done about nodes that cannot be imported
reading       a file as a checked message, and its tensors, also in files beside it
chosen_results  a graph with some of its results
import_graph  a graph as a program: inputs, weights, results, notes about the exporter
texts         what a file says of itself, kept for an export: descriptions, metadata, original names
equal_symbols  sizes of several inputs that are one, although the file names each for itself
ties          weights that an exporter merged or copied, each with its own values or one again
quantised     operators of quantised numbers, rewritten as those of floats
pairs         checks of QuantizeLinear and DequantizeLinear
integers      products of tensors of eight bits, rewritten as nodes that compute in integers
untrained     floats of a file that are not trained, in a sentence
weights       which tensors are parameters
walk          the walk over the nodes
functions     operators that ONNX defines by simpler ones
node          a node with its operands, and mappings made of functions
known         values that depend on sizes at most, computed while importing
dtypes        element types
small_floats  floats of four and eight bits
keras_files   what tf2onnx makes of layers of Keras
strings       strings, whose codes a program has
inside        the graphs inside of a graph, and the names that nodes read there
order         each node behind those that it needs
old_opsets    operators of opsets before 7, and ONNX's description of an operator
places        the source line of a node
"""
