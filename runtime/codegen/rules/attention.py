"""Attention and its gradient."""

from __future__ import annotations

from runtime.codegen.kernels.attention import backward, forward
from runtime.codegen.rules.rule import FLOAT_DTYPES, RULES, CustomKernel

RULES["scaled_dot_product_attention"] = CustomKernel(forward, FLOAT_DTYPES | {"bool"})
RULES["attention_gradient"] = CustomKernel(backward, FLOAT_DTYPES | {"bool"})
