"""Front ends: models of other frameworks as programs.

They call the builder as a user does; they know no passes, and passes do not know them.

arranged   tensors whose axes lie in another order than the model's, so that permutations and views need no ops
extents    extents of axes as products of a number and symbols
report     what a model has that prograd has not, told at once
operators_page  pages of the operators that front ends import
onnx       files of ONNX
torch      modules of PyTorch
"""
