"""Front ends: models of other frameworks as programs.

They call the builder as a user does; they know no passes, and passes do not know them.

account    the nodes, bytes and seconds that an import may take
arranged   tensors whose axes lie in another order than the model's, so that permutations and views need no ops
extents    extents of axes as products of a number and symbols
counted    constants that repeat along axes, or count along one
channels   images and filters with channels last
elements   casts, and axes whose extents no shape can state
pieces     slices, pieces, padding and rows along axes
products   products of matrices of any rank
reductions  reductions along axes
initial_values  arrays that a program brings, in a file beside it
report     what a model has that prograd has not, told at once
onnx       files of ONNX
torch      modules of PyTorch
language_models  folders of Hugging Face's form
"""
