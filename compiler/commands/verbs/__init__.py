"""The tables of the verbs of `compiler`: what each may be told.

command   the command and its verbs, in the order of help
views     show, summary, draw, check, diff, passes, ops
programs  compile, freeze, thaw, plan
imports   import onnx, import torch, import lm
models    export, compare, gradcheck, merge, quantize, build
data      data pack, data show
options   the options that several verbs have
"""
