"""Training: gradients, clipping, updates by optimizers, rates and averages, appended by `minimize`; and metrics.

adapters             low-rank adapters of weights
averages             moving averages of parameters: updated in training, used in other entries
backward             reverse-mode differentiation: append the ops that compute gradients
clipping             limits of gradients, as ops
descent              gradients of the parameters, and their updates by optimizers
fixed_statistics     normalisations of frozen layers, which take their running statistics in training, too
inference_gradients  gradients of inference forms, outside training
initialisers         initial values of states, each an op that the runtime runs once, or a tensor of a file
optimizers           the update, slots and rate of each optimizer;
                     updates are operators, whose formulas and settings are in registry/ops
parameter_groups     the optimizer and the steps of each group of parameters
plateaus             rates that are reduced when a metric stops improving
schedules            learning rates as ops on the states `step` and `total_steps`
settings             names of other libraries for the settings of optimizers
shards               marks of what the shards of a batch have in common
trust_ratios         optimizers with statistics of a whole parameter: LAMB, LARS, Adafactor
weighted_means       means over steps, weighted by the terms that count in each
wrong_optimizers     sentences about names and functions in place of optimizers
written_ops          ops in the place of others in a growing block
metrics/             metrics over the rows of an epoch
"""
