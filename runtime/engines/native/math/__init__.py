"""Elementary functions as vector code, float32 and float64: polynomials, inlined where they are used.

Each docstring states the worst error that was found, in units of the last place (ulp), of float32 and of float64, with
and without fused multiply-add; tests hold it there. NaN, infinities and both zeros are as NumPy's.
Coefficients are from benchmarks/minimax.py, constant term first.

polynomial     Horner's rule
exponential    exp, exp2, expm1
logarithm      log, log2, log1p
hyperbolic     tanh, sigmoid, sinh, cosh
error_function erf
power          pow, of float32 through float64
rounding       rint, floor, ceil, trunc
division       fmod, remainder, floor_divide
"""

from runtime.engines.native.math.division import floor_divide as floor_divide
from runtime.engines.native.math.division import fmod as fmod
from runtime.engines.native.math.division import remainder as remainder
from runtime.engines.native.math.error_function import erf as erf
from runtime.engines.native.math.exponential import exp as exp
from runtime.engines.native.math.exponential import exp2 as exp2
from runtime.engines.native.math.exponential import expm1 as expm1
from runtime.engines.native.math.hyperbolic import cosh as cosh
from runtime.engines.native.math.hyperbolic import sigmoid as sigmoid
from runtime.engines.native.math.hyperbolic import sinh as sinh
from runtime.engines.native.math.hyperbolic import tanh as tanh
from runtime.engines.native.math.logarithm import log as log
from runtime.engines.native.math.logarithm import log1p as log1p
from runtime.engines.native.math.logarithm import log2 as log2
from runtime.engines.native.math.power import pow as pow
from runtime.engines.native.math.rounding import ceil as ceil
from runtime.engines.native.math.rounding import floor as floor
from runtime.engines.native.math.rounding import rint as rint
from runtime.engines.native.math.rounding import trunc as trunc
