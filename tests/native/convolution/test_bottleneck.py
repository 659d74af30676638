"""Inverted bottlenecks: values of the reference, and bits of the three separate convolutions."""

import numpy as np
import pytest
from native.bound import lowered
from native.building import every_target
from native.made import Made, check

import runtime
from prograd import Program, ops
from registry import OPS
from runtime.codegen.lowering.chunks import item_ranges
from runtime.engines.native.cpu import this_machine

ONE = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
BEHIND = "+add+relu6+conv2d+mul+relu+conv2d+add"


def numbers(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(0.1, 1, shape).astype(dtype)


def operands(image, inside, wide, window=(3, 3), dtype="float32"):
    """Images, three filters, a bias and a scale of the wide pixels."""
    deep = image[-1]
    shapes = image, (1, 1, deep, inside), (*window, 1, inside), (1, 1, inside, wide), (inside,), (inside,)
    return [numbers(*shape, seed=s, dtype=dtype) for s, shape in enumerate(shapes)]


def of_window(stride=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), between=False):
    """A bottleneck; `between` has its wide pixels read elsewhere too."""

    def write(x, expand, filter, project, bias, scale):
        alone = {"stride": stride, "padding": padding, "dilation": dilation, "groups": bias.type.static_shape[0]}
        wide = OPS["relu6"](OPS["add"](OPS["conv2d"](x, expand, **ONE), bias))
        made = OPS["relu"](OPS["mul"](OPS["conv2d"](wide, filter, **alone), scale))
        y = OPS["conv2d"](made, project, **ONE)
        y = OPS["add"](y, x) if y.type == x.type else OPS["add"](y, y)
        return (y, wide) if between else y

    return write


CASES = {
    "residual": (operands((2, 7, 9, 5), 20, 5), {}),
    "one image": (operands((1, 12, 40, 8), 33, 7), {}),
    "many images": (operands((9, 8, 8, 16), 96, 50), {}),
    "stride": (operands((2, 9, 11, 6), 18, 40), {"stride": (2, 2)}),
    "stride of rows": (operands((1, 12, 6, 6), 18, 4), {"stride": (3, 1), "padding": (0, 1, 1, 0)}),
    "rows between windows": (operands((3, 10, 6, 6), 18, 4, (1, 1)), {"stride": (3, 2), "padding": (0, 0, 0, 0)}),
    "dilation": (operands((2, 9, 9, 4), 17, 4, (3, 2)), {"dilation": (2, 3), "padding": (2, 2, 3, 0)}),
    "large window": (operands((1, 4, 4, 4), 16, 16, (5, 5)), {"padding": (2, 2, 2, 2)}),
    "wide border": (operands((2, 3, 2, 3), 16, 3), {"padding": (4, 3, 3, 4)}),
    "of doubles": (operands((2, 6, 7, 9), 27, 9, dtype="float64"), {}),
    "one place": (operands((1, 1, 1, 3), 2, 3), {}),
}


@pytest.mark.sampled(3)
@every_target
@pytest.mark.parametrize("case", CASES)
def test_a_bottleneck_has_the_bits_of_its_convolutions(target, case):
    given, attributes = CASES[case]
    write, apart = of_window(**attributes), of_window(**attributes, between=True)
    assert Made(write, given).groups(target) == ["conv2d" + BEHIND]
    assert len(Made(apart, given).groups(target)) > 1
    [found] = check(write, given, target, near=4e-6 if given[0].itemsize == 4 else None)
    np.testing.assert_array_equal(found, Made(apart, given).native(target)[0])
    for threads in (2, 3, 5):
        np.testing.assert_array_equal(found, Made(write, given).native(target, threads)[0])


def test_what_lies_between_takes_no_memory():
    given, attributes = CASES["many images"]
    step = lowered(Made(of_window(**attributes), given).desc, (), this_machine())
    wide = 9 * 8 * 8 * 96 * 4
    assert step.memory.arena_bytes < wide


def test_of_one_image_each_thread_has_one_stretch_of_rows():
    given, attributes = CASES["one image"]
    step = lowered(Made(of_window(**attributes), given).desc, (), this_machine(), 2)
    stage = step.steps[0].steps[-1]._replace(cost=1e9)
    assert item_ranges(stage, 1) == [(0, stage.work_items)]
    assert item_ranges(stage, 2) == [(0, stage.work_items // 2), (stage.work_items // 2, stage.work_items)]


def predictor(between: bool) -> Program:
    """A bottleneck of one image; `between` has its wide pixels predicted too."""
    made = Program("bottleneck", seed=3)
    x = made.input("x", "float32", ("batch", 8, 8, 24))
    wide = ops.relu6(ops.conv2d(x, made.parameter("expand", (1, 1, 24, 96))))
    h = ops.relu6(ops.conv2d(wide, made.parameter("filter", (3, 3, 1, 96)), padding=(1,) * 4, groups=96))
    y = ops.conv2d(h, made.parameter("project", (1, 1, 96, 72)))
    made.outputs(**({"y": y, "wide": wide} if between else {"y": y}))
    return made


def test_filters_that_are_packed_once_change_no_bit():
    x = numbers(1, 8, 8, 24)
    one, apart = (runtime.Run(predictor(between).compile(batch=1), engine="native") for between in (False, True))
    np.testing.assert_array_equal(one.predict(x)["y"], apart.predict(x)["y"])
    one.state["project"] = apart.state["project"] = numbers(1, 1, 96, 72, seed=5)
    np.testing.assert_array_equal(one.predict(x)["y"], apart.predict(x)["y"])
