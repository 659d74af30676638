"""Forms: what an op is to the native engine, a family a file, named as the reference kernels' families.

form        the kinds of forms, and the table of them by operator
composition ops spelled with others
stages      how the work of a form with loops of its own is divided
places      indices of elements, for forms that ask for them
registers   elements as expressions see them, and as they lie in memory
pointwise   arithmetic, comparisons, choices
elementary  exponentials, logarithms and their like
activation  activations
logic       bits, and what kind of number a float is
rounding    to whole numbers; division with a remainder
special     the error functions
copy        casts
fill        tensors made from nothing, triangles of matrices
random      random numbers, dropout
update      sgd, momentum
adam        Adam and its kin
adaptive    Adagrad, Adadelta, Lion, RMSprop
products    products of matrices
attention   attention and its gradient
conv        convolutions and their gradients
pool        maxima and means under windows, and their gradients
norm        softmax and batch normalisation
layer_norm  layer, RMS and group normalisation
statistics  variances, deviations, norms, logarithms of sums of powers
loss        losses and accuracy
recurrent   recurrent layers and their gradients
ctc         the loss of labels without times, and its gradient
order       where the largest and the smallest are
named       places of an axis that are named by numbers
reductions  sums, products, means, extremes and truths along axes
index       rows by numbers that are data: read, added to, counted
lookup      what rows of indices name
scatter     rows by several numbers each
scan        running sums and products, linear recurrences
sorting     sorting, the largest and the smallest
digits      long orders, digit by digit
unfold      windows of images side by side, and back
shape       the same elements in another arrangement
moves/      a room of its own: boxes of elements copied or filled

`FORMS` is filled when this room is imported. What has no form runs as its NumPy kernel.
"""

from runtime.engines.native.forms import activation as activation
from runtime.engines.native.forms import adam as adam
from runtime.engines.native.forms import adaptive as adaptive
from runtime.engines.native.forms import attention as attention
from runtime.engines.native.forms import conv as conv
from runtime.engines.native.forms import copy as copy
from runtime.engines.native.forms import ctc as ctc
from runtime.engines.native.forms import elementary as elementary
from runtime.engines.native.forms import fill as fill
from runtime.engines.native.forms import index as index
from runtime.engines.native.forms import layer_norm as layer_norm
from runtime.engines.native.forms import logic as logic
from runtime.engines.native.forms import loss as loss
from runtime.engines.native.forms import named as named
from runtime.engines.native.forms import norm as norm
from runtime.engines.native.forms import order as order
from runtime.engines.native.forms import pointwise as pointwise
from runtime.engines.native.forms import pool as pool
from runtime.engines.native.forms import products as products
from runtime.engines.native.forms import random as random
from runtime.engines.native.forms import recurrent as recurrent
from runtime.engines.native.forms import reductions as reductions
from runtime.engines.native.forms import rounding as rounding
from runtime.engines.native.forms import scan as scan
from runtime.engines.native.forms import scatter as scatter
from runtime.engines.native.forms import shape as shape
from runtime.engines.native.forms import sorting as sorting
from runtime.engines.native.forms import special as special
from runtime.engines.native.forms import statistics as statistics
from runtime.engines.native.forms import unfold as unfold
from runtime.engines.native.forms import update as update
from runtime.engines.native.forms.composition import Composition as Composition
from runtime.engines.native.forms.composition import Part as Part
from runtime.engines.native.forms.form import FORMS as FORMS
from runtime.engines.native.forms.form import Composite as Composite
from runtime.engines.native.forms.form import Form as Form
from runtime.engines.native.forms.form import Loops as Loops
from runtime.engines.native.forms.form import Pointwise as Pointwise
from runtime.engines.native.forms.form import Product as Product
from runtime.engines.native.forms.form import Reduction as Reduction
from runtime.engines.native.forms.form import form_of as form_of
from runtime.engines.native.forms.places import ALL_AXES as ALL_AXES
from runtime.engines.native.forms.places import Places as Places
from runtime.engines.native.forms.registers import constant as constant
from runtime.engines.native.forms.registers import in_memory as in_memory
from runtime.engines.native.forms.registers import in_register as in_register
from runtime.engines.native.forms.registers import register_type as register_type
from runtime.engines.native.forms.stages import Prepack as Prepack
from runtime.engines.native.forms.stages import Stage as Stage
from runtime.engines.native.forms.stages import Stages as Stages
from runtime.engines.native.forms.stages import Strips as Strips
from runtime.engines.native.forms.stages import Work as Work
