"""To whole numbers, and division with a remainder."""

from __future__ import annotations

from runtime.codegen import math
from runtime.codegen.rules.form import FLOATS, NUMBERS, of_one, of_two

of_one("floor", math.floor, FLOATS)
of_one("ceil", math.ceil, FLOATS)
of_one("round", math.rint, FLOATS)
of_one("trunc", math.trunc, FLOATS)

of_two("floor_div", math.floor_divide, NUMBERS)
of_two("remainder", math.remainder, NUMBERS)
of_two("fmod", math.fmod, NUMBERS)
