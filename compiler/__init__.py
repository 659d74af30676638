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

from compiler.build.compiled import Compiled as Compiled
from compiler.build.plugins import use_plugin as use_plugin
from compiler.build.program import Program as Program
from compiler.errors import CompileError as CompileError
from compiler.train import clipping as clipping
from compiler.train import initialisers as initialisers
from compiler.train import metrics as metrics
from compiler.train import optimizers as optimizers
from compiler.train import schedules as schedules
from compiler.train import trust_ratios as trust_ratios
from compiler.train.backward import gradients as gradients
from compiler.train.clipping import by_norm as by_norm
from compiler.train.clipping import by_value as by_value
from compiler.train.clipping import global_norm as global_norm
from compiler.train.initialisers import constant as constant
from compiler.train.initialisers import from_file as from_file
from compiler.train.initialisers import glorot_normal as glorot_normal
from compiler.train.initialisers import glorot_uniform as glorot_uniform
from compiler.train.initialisers import he_normal as he_normal
from compiler.train.initialisers import he_uniform as he_uniform
from compiler.train.initialisers import identity as identity
from compiler.train.initialisers import normal as normal
from compiler.train.initialisers import orthogonal as orthogonal
from compiler.train.initialisers import truncated_normal as truncated_normal
from compiler.train.initialisers import uniform as uniform
from compiler.train.initialisers import variance_scaling as variance_scaling
from compiler.train.initialisers import zeros as zeros
from compiler.train.optimizers import adadelta as adadelta
from compiler.train.optimizers import adagrad as adagrad
from compiler.train.optimizers import adam as adam
from compiler.train.optimizers import adamax as adamax
from compiler.train.optimizers import adamw as adamw
from compiler.train.optimizers import lion as lion
from compiler.train.optimizers import look_ahead as look_ahead
from compiler.train.optimizers import momentum as momentum
from compiler.train.optimizers import nadam as nadam
from compiler.train.optimizers import nesterov as nesterov
from compiler.train.optimizers import radam as radam
from compiler.train.optimizers import rmsprop as rmsprop
from compiler.train.optimizers import sgd as sgd
from compiler.train.schedules import warmup_cosine as warmup_cosine
from compiler.train.trust_ratios import adafactor as adafactor
from compiler.train.trust_ratios import lamb as lamb
from compiler.train.trust_ratios import lars as lars
from registry import OpError as OpError
from registry import Value as Value
from registry import ops as ops
