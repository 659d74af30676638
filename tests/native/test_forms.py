"""Every pointwise form against the reference kernel of its operator, odd numbers included, between forbidden pages."""

import numpy as np
import pytest
from native.building import every_target
from native.guarded import guarded
from native.made import check

import runtime.engines.reference.kernels  # noqa: F401 -- fills KERNELS
from prograd_proto import ProgramError, TensorType
from registry import OPS
from runtime.codegen.ir import DTYPES, Module, pointer
from runtime.codegen.rules import RULES, Pointwise, in_memory, in_register, rule_of
from runtime.codegen.rules.rule import COMPUTED_DTYPES
from runtime.engines.native import jit
from runtime.engines.native.cpu import this_machine
from runtime.kernel import KERNELS
from runtime.operators import CONTRACTS

SIZE = 203
"""Many vectors of any target, and a tail."""

ATTRIBUTES = {
    "leaky_relu": [{"alpha": alpha} for alpha in (0.1, 2.0, 0.0, -0.5, 1e-60)],
    "elu": [{"alpha": 1.5}],
    "celu": [{"alpha": 1.5}],
    "gelu": [{"approximate": "none"}, {"approximate": "tanh"}],
    "polygamma": [{"n": 1}, {"n": 2}, {"n": 7}],
    "softplus": [{"beta": 1.0}, {"beta": 2.0}],
    "hard_sigmoid": [{"alpha": 0.2, "beta": 0.5}],
    "hard_tanh": [{"min": -1.5, "max": 0.5}],
    "threshold": [{"threshold": 0.5, "value": -7.0}],
    "cast": [{"dtype": dtype} for dtype in COMPUTED_DTYPES],
    "broadcast_to": [{"shape": (203,)}],
    "join_shards": [{"first": 0, "middle": 1, "stop": 2}],
    "sgd": [{"decay": 0.0}, {"decay": 0.1}],
    "momentum": [{"momentum": 0.9, "nesterov": nesterov, "decay": 0.1} for nesterov in (False, True)],
    "adam": [{"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": decay} for decay in (0.0, 0.1)],
    "adamw": [{"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": decay} for decay in (0.0, 0.1)],
    "adamax": [{"beta1": 0.9, "beta2": 0.0, "epsilon": 1e-8, "decay": 0.1}],
    "adagrad": [{"rate_decay": 0.1, "epsilon": 1e-10, "decay": 0.1}],
    "lion": [{"beta1": 0.9, "beta2": 0.99, "decay": 0.1}],
    "rms_scale": [{"alpha": 0.9, "epsilon": 1e-8, "decay": 0.1}],
    "centred_rms_scale": [{"alpha": 0.9, "epsilon": 1e-8, "decay": 0.1}],
    "adadelta": [{"rho": 0.9, "epsilon": 1e-6, "decay": 0.1}],
    "adam_scale": [{"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": 0.1}],
    "amsgrad": [{"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": 0.1, "decoupled": d} for d in (False, True)],
    "nadam": [
        {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "momentum_decay": 0.004, "decay": 0.1, "decoupled": decoupled}
        for decoupled in (False, True)
    ],
    "radam": [
        {"beta1": beta1, "beta2": beta2, "epsilon": 1e-8, "decay": 0.1, "decoupled": decoupled}
        for beta1, beta2, decoupled in ((0.9, 0.999, False), (0.9, 0.99, True), (0.9, 0.5, False))
    ],
}

OPERANDS = {
    "clip": ("xxx", "xx-", "x-x"),
    "where": ("?xx",),
    "lerp": ("xxx",),
    "sigmoid_cross_entropy": ("xx-", "xxx"),
    "sgd": ("xxr",),
    "momentum": ("xxxr",),
    "adam": ("xxxsrt",),
    "adamw": ("xxxsrt",),
    "adamax": ("xxxsrt",),
    "adagrad": ("xxsrt",),
    "lion": ("xxxr",),
    "rms_scale": ("xxs",),
    "centred_rms_scale": ("xxlx",),
    "adadelta": ("xxssr",),
    "adam_scale": ("xxxst",),
    "amsgrad": ("xxxssrt",),
    "radam": ("xxxsrt",),
    "nadam": ("xxxsprt",),
}
"""x: a tensor, s: of squares, l: of large ones, ?: bool, r: a rate, t: a step, p: a product, -: absent; others x."""

ODD = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 100.0, -100.0, 1e-30, np.inf, -np.inf, np.nan]
EXACT = {
    "add",
    "sub",
    "mul",
    "div",
    "sqrt",
    "maximum",
    "minimum",
    "clip",
    "neg",
    "abs",
    "sign",
    "square",
    "relu",
    "where",
}
EXACT |= {
    "floor",
    "ceil",
    "round",
    "trunc",
    "reciprocal",
    "relu6",
    "hard_tanh",
    "threshold",
    "leaky_relu",
    "bitcast",
    "cast",
    "fmod",
}

FADES = {"gelu": 1.0, "adam_scale": 1.0, "radam": 1.0, "lgamma": 1.0, "digamma": 1.0, "polygamma": 1.0}
"""Results that may lose their own last places where they are small beside an operand, and how near they then are."""


def cases(dtype):
    """(name, operands, attributes) of every form for tensors of a dtype that its operator takes."""
    for name, form in sorted(RULES.items()):
        if name not in KERNELS:
            continue  # of bfloat16 operands; tests/native/mixed compares them
        for letters in OPERANDS.get(name, ("x", "xx", "xxx")):
            for number, attributes in enumerate(ATTRIBUTES.get(name, [{}])):
                operands = [operand(letter, dtype, i) for i, letter in enumerate(letters)]
                if form.dtypes.issuperset(dtypes_of(operands)) and accepted(name, operands, attributes):
                    yield f"{name}_{letters.find('-')}_{number}".replace("-", "m"), name, operands, attributes


def accepted(name, operands, attributes):
    try:
        CONTRACTS[name].rule.results(*map(type_of, operands), **attributes)
    except (ProgramError, TypeError):  # not of this dtype; not so many operands
        return False
    return True


def operand(letter, dtype, number):
    rng = np.random.default_rng(number)
    if letter == "-":
        return None
    if letter == "p":
        return np.array(0.7)
    if letter in "rt":
        return np.array(0.01, dtype) if letter == "r" else np.array(6, "int64")
    if letter == "?" or dtype == "bool":
        return rng.integers(0, 2, SIZE).astype(bool)
    if letter in "sl":
        return (rng.uniform(0.01, 2, SIZE) * (1e4 if letter == "l" else 1)).astype(dtype)
    if dtype in ("float32", "float64"):
        pairs = np.array(np.meshgrid(ODD, ODD)).reshape(2, -1)[number % 2]
        return np.concatenate([pairs, rng.normal(0, 3, SIZE - pairs.size)]).astype(dtype)
    edges = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 7, 8, 31, 32, 63, 64]
    pairs = np.array(np.meshgrid(edges, edges)).reshape(2, -1)[number % 2]
    return np.concatenate([pairs, rng.integers(0, 200, SIZE - pairs.size)]).astype(dtype)


def type_of(x):
    return None if x is None else TensorType(x.dtype.name, x.shape)


def dtypes_of(operands):
    return [x.dtype.name for x in operands if x is not None]


def reference(name, operands, attributes):
    types = list(map(type_of, operands))
    outputs = [np.zeros(type.shape, type.dtype) for type in CONTRACTS[name].rule.results(*types, **attributes)]
    rooms = [np.zeros(type.shape, type.dtype) for type in KERNELS[name].scratch(types, attributes)]
    with np.errstate(all="ignore"):
        KERNELS[name].bind(operands, outputs, rooms, attributes, 0)()
    return outputs


def write(module, function, name, operands, attributes, outputs):
    """A function that computes the form, vector by vector; operands that are alone are read before."""
    form, lanes = rule_of(name, dtypes_of(operands)), module.target.lanes(64)
    given = [x for x in operands if x is not None]
    f = module.function(function, [pointer(DTYPES[x.dtype.name]) for x in [*given, *outputs]])
    pointers, results = f.arguments[: len(given)], f.arguments[len(given) :]

    def read(i, lanes, tail=None):
        left = iter(pointers)
        for x in operands:
            if x is None:
                yield None
            else:
                p, many = next(left), lanes if x.ndim else 0
                yield in_register(f.load(p, i, many, tail) if many else f.load(p), x.dtype.name)

    once = form.named_values(list(alone(operands, read)), attributes)
    for i in f.range(0, SIZE // lanes * lanes, lanes):
        vector(f, form, read(i, lanes), once, results, i)
    if SIZE % lanes:
        i = SIZE // lanes * lanes
        vector(f, form, read(i, lanes, SIZE % lanes), once, results, i, SIZE % lanes)
    f.end()


def alone(operands, read):
    for x, value in zip(operands, read(0, 0), strict=True):
        yield None if x is None or x.ndim else value


def vector(f, form, operands, once, results, i, tail=None):
    for y, p in zip(form.evaluate(list(operands), once), results, strict=True):
        f.store(in_memory(y), p, *((i, tail) if y.type.lanes else ()))


@pytest.mark.sampled(2)
@every_target
@pytest.mark.parametrize("dtype", sorted(COMPUTED_DTYPES))
def test_every_form_gives_what_its_reference_kernel_gives(target, dtype):
    module, wanted = Module(target), {}
    for function, name, operands, attributes in cases(dtype):
        wanted[function] = name, operands, reference(name, operands, attributes), attributes
        write(module, function, name, operands, attributes, wanted[function][2])
    loaded = jit.load(jit.compiled(module), target)
    for function, (name, operands, expected, attributes) in wanted.items():
        given = [x for x in operands if x is not None]
        arrays = [guarded(x) for x in [*given, *(np.zeros_like(y) for y in expected)]]
        loaded.function(function, len(arrays))(*[x.ctypes.data for x in arrays])
        for got, want in zip(arrays[len(given) :], expected, strict=True):
            message = f"{function} {attributes}"
            if want.dtype.kind != "f" or name in EXACT:
                np.testing.assert_array_equal(got, want, err_msg=message)
            else:
                near = 4e-6 if want.dtype == np.float32 else 1e-14
                np.testing.assert_allclose(got, want, rtol=near, atol=near * FADES.get(name, 1e-7), err_msg=message)


def test_every_form_is_tried_with_some_dtype():
    tried = {name for dtype in COMPUTED_DTYPES for _, name, _, _ in cases(dtype)}
    elementwise = {name for name, form in RULES.items() if isinstance(form, Pointwise) and not form.indices}
    elsewhere = {
        "iteration_step",  # of rank 0 alone: control/test_compiled.py
        "quantize_linear",  # between two dtypes, with scales: integers/test_integer_products.py
        "dequantize_linear",
    }
    assert tried == elementwise - elsewhere
    assert {name.removesuffix(" of bfloat16") for name in RULES} <= set(KERNELS)


def test_an_operator_has_a_form_only_for_dtypes_with_code():
    assert rule_of("add", ["float32", "float32"]) is RULES["add"]
    assert rule_of("add", ["float16", "float16"]) is None
    assert rule_of("ctc_loss", ["float32"]) is None


@pytest.mark.parametrize(("shape", "axis"), [((3, 74), -1), ((5, 2, 33), 1), ((2,), 0), ((6, 4), 0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gated_units(shape, axis, dtype):
    x = np.random.default_rng(0).normal(0, 30, shape).astype(dtype)
    x.flat[: len(ODD)] = ODD[: x.size]
    for end in (False, True):
        check(lambda x: OPS["glu"](x, axis=axis), [x], this_machine(), end=end)
