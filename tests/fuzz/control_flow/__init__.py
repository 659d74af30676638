"""Random programs with conditions and loops, one in another, computed by prograd and by others.

tree          a program as data, and its computation by any of the libraries
draw          random programs from a seed
by_prograd    the operators of prograd, and runs of compiled programs
by_torch      PyTorch: loops of Python, and its automatic differentiation
by_jax        `jax.lax`, and its automatic differentiation
judge         values, gradients and second gradients beside those of others, differences, and bits of variants
__main__      the command: `PYTHONPATH=tests python -m fuzz.control_flow --count 3000 --jobs 2`
"""
