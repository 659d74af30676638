"""Elementary functions as vector code for float32 and float64: polynomials, inlined at each use.

Each docstring states the largest error that was found, in units of the last place (ulp), for float32 and for float64,
with and without fused multiply-add; tests check this bound. NaN, infinities and both zeros are as in NumPy.
Coefficients are from benchmarks/minimax.py, constant term first.

polynomial     Horner's rule
exponential    exp, exp2, expm1
logarithm      log, log2, log1p
hyperbolic     tanh, sigmoid, sinh, cosh, asinh, acosh, atanh
error_function erf, erfc
gamma          lgamma, digamma
polygamma      derivatives of digamma
pairs          numbers with twice the digits, for pow
power          pow
philox         the random bits of streams
quantile       the quantile function of the normal distribution
rounding       rint, floor, ceil, trunc
division       fmod, remainder, floor_divide
quarter_turns  reduction of angles of any size to an eighth of a turn
trigonometric  sin, cos, tan
inverse_trigonometric  asin, acos, atan, atan2
"""

from runtime.codegen.math.division import floor_divide as floor_divide
from runtime.codegen.math.division import fmod as fmod
from runtime.codegen.math.division import remainder as remainder
from runtime.codegen.math.error_function import erf as erf
from runtime.codegen.math.error_function import erfc as erfc
from runtime.codegen.math.exponential import exp as exp
from runtime.codegen.math.exponential import exp2 as exp2
from runtime.codegen.math.exponential import exp_below as exp_below
from runtime.codegen.math.exponential import expm1 as expm1
from runtime.codegen.math.gamma import digamma as digamma
from runtime.codegen.math.gamma import lgamma as lgamma
from runtime.codegen.math.hyperbolic import acosh as acosh
from runtime.codegen.math.hyperbolic import asinh as asinh
from runtime.codegen.math.hyperbolic import atanh as atanh
from runtime.codegen.math.hyperbolic import cosh as cosh
from runtime.codegen.math.hyperbolic import sigmoid as sigmoid
from runtime.codegen.math.hyperbolic import sinh as sinh
from runtime.codegen.math.hyperbolic import tanh as tanh
from runtime.codegen.math.inverse_trigonometric import acos as acos
from runtime.codegen.math.inverse_trigonometric import asin as asin
from runtime.codegen.math.inverse_trigonometric import atan as atan
from runtime.codegen.math.inverse_trigonometric import atan2 as atan2
from runtime.codegen.math.logarithm import log as log
from runtime.codegen.math.logarithm import log1p as log1p
from runtime.codegen.math.logarithm import log2 as log2
from runtime.codegen.math.philox import philox as philox
from runtime.codegen.math.polygamma import polygamma as polygamma
from runtime.codegen.math.power import pow as pow
from runtime.codegen.math.quantile import normal_quantile as normal_quantile
from runtime.codegen.math.rounding import ceil as ceil
from runtime.codegen.math.rounding import floor as floor
from runtime.codegen.math.rounding import rint as rint
from runtime.codegen.math.rounding import trunc as trunc
from runtime.codegen.math.trigonometric import cos as cos
from runtime.codegen.math.trigonometric import near_zero as near_zero
from runtime.codegen.math.trigonometric import sin as sin
from runtime.codegen.math.trigonometric import tan as tan
