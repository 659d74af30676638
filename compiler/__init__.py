"""Builds programs, appends gradients and updates, and compiles them into one file.

from compiler import Program, adam, ops, warmup_cosine

program          Program: tensors, minimize, data, run, compile
state_table      the states that it declares
descent          what minimize appends
assembly         from what was built to blocks and entries
opened           a file as something to build on
backward         gradients of any tensors
optimizers       sgd, momentum, adam and their like; trust_ratios has lamb, lars and adafactor
clipping         limits of gradients
schedules        learning rates as ops
metrics          of all rows of an epoch or an evaluation
initialisers     first values of parameters
plugins          operators of other packages
pipeline         the list of passes; one file a pass
plan_program     planning with care and to a budget; rematerialise says what runs again
rewrite          the walk of those that leave out ops; simplify has its rules in identities and rearrangements
"""

from compiler import metrics as metrics
from compiler.backward import gradients as gradients
from compiler.clipping import by_norm as by_norm
from compiler.clipping import by_value as by_value
from compiler.clipping import global_norm as global_norm
from compiler.compiled import Compiled as Compiled
from compiler.errors import CompileError as CompileError
from compiler.initialisers import constant as constant
from compiler.initialisers import from_file as from_file
from compiler.initialisers import glorot_normal as glorot_normal
from compiler.initialisers import glorot_uniform as glorot_uniform
from compiler.initialisers import he_normal as he_normal
from compiler.initialisers import he_uniform as he_uniform
from compiler.initialisers import identity as identity
from compiler.initialisers import normal as normal
from compiler.initialisers import orthogonal as orthogonal
from compiler.initialisers import truncated_normal as truncated_normal
from compiler.initialisers import uniform as uniform
from compiler.initialisers import variance_scaling as variance_scaling
from compiler.initialisers import zeros as zeros
from compiler.optimizers import adadelta as adadelta
from compiler.optimizers import adagrad as adagrad
from compiler.optimizers import adam as adam
from compiler.optimizers import adamax as adamax
from compiler.optimizers import adamw as adamw
from compiler.optimizers import lion as lion
from compiler.optimizers import look_ahead as look_ahead
from compiler.optimizers import momentum as momentum
from compiler.optimizers import nadam as nadam
from compiler.optimizers import nesterov as nesterov
from compiler.optimizers import radam as radam
from compiler.optimizers import rmsprop as rmsprop
from compiler.optimizers import sgd as sgd
from compiler.plugins import use_plugin as use_plugin
from compiler.program import Program as Program
from compiler.schedules import warmup_cosine as warmup_cosine
from compiler.trust_ratios import adafactor as adafactor
from compiler.trust_ratios import lamb as lamb
from compiler.trust_ratios import lars as lars
from registry import OpError as OpError
from registry import Value as Value
from registry import ops as ops
