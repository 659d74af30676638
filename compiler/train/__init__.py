"""What minimizing appends: gradients, clipping, updates by optimizers, rates, averages; and metrics.

averages             moving averages of parameters: kept while training, computed with elsewhere
backward             reverse-mode differentiation: append the ops that compute gradients
clipping             limits of gradients, as ops
descent              what minimizing a loss appends: gradients of the parameters, and the optimizers' updates of them
inference_gradients  gradients outside training are those of what is computed there
initialisers         initial values of states, each an op that the runtime runs once, or a tensor of a file
optimizers           which update an optimizer appends for each parameter, with which slots and rate;
                     updates are operators, whose formulas and settings are in registry/ops
parameter_groups     which optimizer trains which parameters, and at which steps
schedules            learning rates as ops on the states `step` and `total_steps`
settings             what optimizers are asked for under names that other libraries have for their settings
trust_ratios         optimizers that look at a whole parameter at once: LAMB, LARS, Adafactor
weighted_means       means over steps, weighted by what counts in each
metrics/             a room of its own
"""
