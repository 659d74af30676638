"""Attention and its gradient."""

from __future__ import annotations

from runtime.codegen.kernels.attention import backward, forward
from runtime.codegen.rules.form import FLOATS, FORMS, Loops

FORMS["scaled_dot_product_attention"] = Loops(forward, FLOATS | {"bool"})
FORMS["attention_gradient"] = Loops(backward, FLOATS | {"bool"})
