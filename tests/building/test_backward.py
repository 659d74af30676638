"""Gradients against known answers: seeds, fan-out, unused outputs, cuts, refusals, orders, stages.

The cases are those that other systems got wrong in silence, each with the answer that mathematics gives.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from subjects.commands import told
from subjects.values import check_orders, define, directional, here, value_of, values_of

from compiler import CompileError, Program, Value, constant, gradients, ops, sgd
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.result_types.shapes import require_float
from registry import OPS, Block, op

X = np.array([1.0, 2.0, 3.0])


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def given(value: Value | None) -> Value:
    assert value is not None
    return value


# Seeds


def test_a_target_that_is_an_ancestor_of_another_keeps_its_own_seed():
    x = define(Block(), "x")
    y = 2.0 * x
    z = 3.0 * y
    [dx] = gradients([y, z], [x])
    assert value_of(given(dx), {"x": 5.0}) == 2 + 6


def test_a_target_named_twice_counts_twice():
    x = define(Block(), "x")
    y = 2.0 * x
    [dx] = gradients([y, y], [x])
    assert value_of(given(dx), {"x": 5.0}) == 4


def test_the_gradient_of_a_tensor_by_itself_is_one():
    x = define(Block(), "x", (2, 3))
    [dx] = gradients(x, [x])
    assert value_of(given(dx), {"x": np.zeros((2, 3))}).tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_given_seed_takes_the_place_of_ones():
    block = Block()
    x, seed = define(block, "x", (3,)), define(block, "seed", (3,))
    [dx] = gradients([x * x], [x], [seed])
    assert value_of(given(dx), {"x": X, "seed": [1, 0, -1]}).tolist() == [2, 0, -6]


def test_some_targets_may_have_a_seed_and_others_ones():
    block = Block()
    x, seed = define(block, "x"), define(block, "seed")
    [dx] = gradients([x * x, 3.0 * x], [x], [seed, None])
    assert value_of(given(dx), {"x": 5.0, "seed": 7.0}) == 7 * 10 + 3


def test_an_input_that_no_target_depends_on_has_none_and_the_others_keep_their_places():
    block = Block()
    x, u, w = (define(block, name) for name in "xuw")
    grads = gradients(x * w, [x, u, w, u])
    assert [grad is None for grad in grads] == [False, True, False, True]
    assert values_of([given(grads[0]), given(grads[2])], {"x": 2, "u": 3, "w": 5}) == [5, 2]


def test_an_input_may_be_named_twice_and_between_others():
    x = define(Block(), "x")
    h = x * x
    y = h * 3.0 + x
    grads = [given(grad) for grad in gradients(y, [h, x, h])]
    assert values_of(grads, {"x": 5.0}) == [3, 31, 3]


def test_a_gradient_has_the_type_of_its_input_in_every_dtype():
    block = Block()
    x = define(block, "x", (4,), "float32")
    y = ops.sum(ops.cast(x, dtype="float64") * 2.0)
    assert given(gradients(y, [x])[0]).type == TensorType("float32", (4,))


def test_gradients_of_symbolic_shapes_stay_symbolic():
    block = Block()
    x, w = define(block, "x", ("n", 3)), define(block, "w", (3,))
    dx, dw = gradients(ops.mean(ops.square(x * w)), [x, w])
    assert (given(dx).shape, given(dw).shape) == (("n", 3), (3,))


@pytest.mark.parametrize(
    ("targets", "seeds", "sentence"),
    [
        (["x"], ["seed"], "the seed %seed: float64[2] is not of the type of its target %x: float64[]"),
        (["x"], ["x", "x"], "gradients: 1 targets and 2 seeds; give one seed, or None, for each"),
        ([], None, "gradients: 0 targets and 0 seeds; give one seed, or None, for each"),
        (["i"], None, "%i: int64[] has no gradient: only tensors of floats do"),
    ],
)
def test_targets_and_seeds_that_do_not_fit_are_refused(targets: list[str], seeds: list[str] | None, sentence: str):
    block = Block()
    define(block, "x"), define(block, "seed", (2,)), define(block, "i", (), "int64")
    with pytest.raises(CompileError) as error:
        gradients(
            [block.value(name) for name in targets],
            [block.value("x")],
            None if seeds is None else [block.value(name) for name in seeds],
        )
    assert str(error.value) == sentence


def test_tensors_of_two_programs_are_refused():
    x, y = define(Block(), "x"), define(Block(), "y")
    with pytest.raises(CompileError) as error:
        gradients(x, [y])
    assert str(error.value) == "%y: float64[] and %x: float64[] belong to different programs"


# Fan-out


def test_one_tensor_in_both_slots_of_an_op_gets_both_contributions():
    x = define(Block(), "x", (3,))
    assert value_of(given(gradients(x + x, [x])[0]), {"x": X}).tolist() == [2, 2, 2]
    x = define(Block(), "x", (3,))
    assert value_of(given(gradients(x * x, [x])[0]), {"x": X}).tolist() == [2, 4, 6]
    x = define(Block(), "x", (2, 2))
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    ones = np.ones((2, 2))
    np.testing.assert_array_equal(value_of(given(gradients(x @ x, [x])[0]), {"x": a}), ones @ a.T + a.T @ ones)


def test_one_tensor_twice_among_joined_ones_gets_both_contributions():
    block = Block()
    x, y = define(block, "x", (2,)), define(block, "y", (2,))
    weights = define(block, "weights", (6,))
    dx, dy = gradients([ops.concat(x, x, y)], [x, y], [weights])
    feeds = {"x": [0, 0], "y": [0, 0], "weights": [1, 2, 3, 4, 5, 6]}
    assert [v.tolist() for v in values_of([given(dx), given(dy)], feeds)] == [[4, 6], [5, 6]]


def test_a_weight_used_four_times_gets_one_sum_of_four_contributions():
    block = Block()
    w, x = define(block, "w"), define(block, "x")
    h = x
    for _ in range(4):
        h = h * w
    before = len(block.desc.ops)
    [dw] = gradients(h, [w])
    assert value_of(given(dw), {"w": 2.0, "x": 3.0}) == 4 * 2**3 * 3
    assert [desc.type for desc in block.desc.ops[before:]].count("add") == 3


def test_a_tied_embedding_gets_the_rows_it_gave_and_the_product_it_made():
    block = Block()
    w, ids = define(block, "w", (4, 2)), define(block, "ids", (3,), "int64")
    scores = ops.matmul(ops.gather(w, ids), w, transpose_b=True)
    [dw] = gradients(ops.sum(scores), [w])
    a, i = rng().normal(size=(4, 2)), np.array([1, 3, 1])
    wanted = np.tile(a[i].sum(0), (4, 1))
    np.add.at(wanted, i, np.tile(a.sum(0), (3, 1)))
    np.testing.assert_allclose(value_of(given(dw), {"w": a, "ids": i}), wanted, rtol=1e-12)


def test_a_diamond_adds_both_ways():
    x = define(Block(), "x")
    h = ops.exp(x)
    y = ops.sin(h) * ops.cos(h)
    wanted = np.cos(2 * np.exp(0.3)) * np.exp(0.3)
    assert value_of(given(gradients(y, [x])[0]), {"x": 0.3}) == pytest.approx(wanted, rel=1e-12)


def test_broadcast_operands_get_sums():
    block = Block()
    a, b = define(block, "a", (2, 1)), define(block, "b", (3,))
    da, db = gradients(a * b, [a, b])
    feeds = {"a": [[2], [5]], "b": [1, 2, 4]}
    assert [v.tolist() for v in values_of([given(da), given(db)], feeds)] == [[[7], [7]], [7, 7, 7]]


@pytest.mark.parametrize(
    ("ranges", "joined"),
    [
        ([(0, 2), (2, 5), (5, 6)], True),
        ([(5, 6), (0, 2), (2, 5)], True),  # in another order
        ([(0, 2), (1, 6)], False),  # they overlap
        ([(0, 3), (4, 6)], False),  # one column is in none
        ([(0, 3), (3, 5)], False),
        ([(0, 6), (0, 6)], False),
        ([(0, 3), (3, 6), (0, 3)], False),  # one is read twice
    ],
)
@pytest.mark.parametrize("is_read_whole", [False, True])
def test_gradients_of_slices_that_cover_an_axis_are_concatenated(
    ranges: list[tuple[int, int]], joined: bool, is_read_whole: bool
):
    x = define(Block(), "x", (2, 6))
    numbers, wanted = rng().normal(size=(2, 6)), np.zeros((2, 6))
    targets = [ops.exp(x[:, start:stop]) * (i + 1.5) for i, (start, stop) in enumerate(ranges)]
    for i, (start, stop) in enumerate(ranges):
        wanted[:, start:stop] += np.exp(numbers[:, start:stop]) * (i + 1.5)
    if is_read_whole:
        targets, wanted = [*targets, x * 3.0], wanted + 3
    [dx] = gradients(targets, [x])
    np.testing.assert_allclose(value_of(given(dx), {"x": numbers}), wanted, rtol=1e-14)
    assert ("concat" in {desc.type for desc in x.block.desc.ops}) == (joined and not is_read_whole)


def test_gradients_of_slices_along_two_axes_are_added():
    x = define(Block(), "x", (4, 4))
    [dx] = gradients([x[:2], x[:, 2:] * 2.0], [x])
    assert value_of(given(dx), {"x": np.ones((4, 4))}).tolist() == [[1, 1, 3, 3]] * 2 + [[0, 0, 2, 2]] * 2


# Unused outputs


def test_a_split_of_which_one_piece_is_used_gives_zeros_for_the_others_and_makes_none_of_them():
    x = define(Block(), "x", (3,))
    pieces = ops.split(x, sizes=(1, 1, 1))
    [dx] = gradients(2.0 * pieces[0], [x])
    assert value_of(given(dx), {"x": X}).tolist() == [2, 0, 0]
    fulls = [desc for desc in x.block.desc.ops if desc.type == "full"]
    assert [desc.attributes[1].float_value for desc in fulls] == [1.0], "the seed is the only filled tensor"


def test_a_loss_on_the_last_piece_or_on_two_of_three_is_as_right():
    x = define(Block(), "x", (3,))
    _, b, c = ops.split(x, sizes=(1, 1, 1))
    [last] = gradients(c * c, [x])
    [two] = gradients([b * c], [x])
    assert [v.tolist() for v in values_of([given(last), given(two)], {"x": X})] == [[0, 0, 6], [0, 3, 2]]


# Cuts


def test_a_cut_activation_keeps_the_gradients_after_it():
    block = Block()
    x, v, w = (define(block, name) for name in "xvw")
    loss = ops.square(ops.stop_gradient(x * v) * w)
    grads = gradients(loss, [x, v, w])
    assert [grad is None for grad in grads] == [True, True, False]
    assert value_of(given(grads[2]), {"x": 2.0, "v": 3.0, "w": 5.0}) == 2 * 5 * 36


def test_a_gradient_that_is_cut_and_differentiated_again_counts_as_a_constant():
    x = define(Block(), "x")
    [slope] = gradients(ops.square(x), [x])
    [dx] = gradients(ops.square(x - ops.stop_gradient(given(slope))), [x])
    assert value_of(given(dx), {"x": 1.5}) == -2 * 1.5


def test_the_same_without_the_cut_is_different():
    x = define(Block(), "x")
    [slope] = gradients(ops.square(x), [x])
    [dx] = gradients(ops.square(x - given(slope)), [x])
    assert value_of(given(dx), {"x": 1.5}) == 2 * 1.5


def test_an_op_without_a_rule_before_a_cut_is_no_matter(unruled: Unruled):
    block = Block()
    x, w = define(block, "x"), define(block, "w")
    [dw] = gradients(ops.stop_gradient(unruled.first(x)) * w, [w])
    assert dw is not None
    [dx, dw] = gradients(ops.stop_gradient(unruled.first(x)) * w, [x, w])
    assert dx is None
    assert dw is not None


def test_a_frozen_parameter_gets_neither_gradient_nor_update_and_passes_gradients_on():
    program = Program()
    x = program.input("x", "float64", (2,))
    frozen = program.parameter("frozen", (2,), dtype="float64", trainable=False)
    w = program.parameter("w", (2,), dtype="float64")
    pairs = program.minimize(ops.sum(ops.square(x * w) * frozen), sgd(0.1))
    assert [name.name for name, _ in pairs] == ["w"]
    grads = value_of(pairs[0][1], {"x": [1, 2], "frozen": [3, 5], "w": [7, 11]})
    assert grads.tolist() == [2 * 7 * 3, 2 * 4 * 11 * 5]
    assert [update.state for update in program.compile().desc.blocks[0].updates] == ["w", "step"]


# Refusals


class Unruled:
    """Two operators without a gradient rule and one that is declared non-differentiable."""

    def __init__(self) -> None:
        self.first, self.second = (op(self._infer(name)) for name in ("first_unruled", "second_unruled"))
        self.flat = op(differentiable=False)(self._infer("flat"))

    def _infer(self, name: str):
        def infer(x: Value) -> TensorType:
            """A test's operator."""
            require_float(x)
            return x.type

        infer.__name__ = name
        return infer


@pytest.fixture
def unruled() -> Iterator[Unruled]:
    before = dict(OPS)
    yield Unruled()
    OPS.clear()
    OPS.update(before)


def test_all_ops_without_a_gradient_are_listed_together_with_their_lines(unruled: Unruled):
    program = Program()
    w = program.parameter("w", (), dtype="float64")
    first, h = here(), unruled.first(w)
    flat, h = here(), unruled.flat(h)
    second, loss = here(), unruled.second(h)
    line = here(2)
    with pytest.raises(CompileError) as error:
        program.minimize(loss, sgd(0.1))
    rule = "has no gradient rule; add one in tests/building/test_backward.py or declare differentiable=False"
    cut = "or cut the path with ops.stop_gradient"
    assert str(error.value) == (
        f"{line}: no gradient through: {first}: first_unruled {rule}, {cut}; "
        f"{flat}: flat is declared non-differentiable, so cut the path with ops.stop_gradient; "
        f"{second}: second_unruled {rule}, {cut}"
    )


def test_an_op_without_a_rule_beside_the_path_is_no_matter(unruled: Unruled):
    block = Block()
    x, w = define(block, "x"), define(block, "w")
    [dw] = gradients(unruled.first(x) * w, [w])
    assert dw is not None


def test_a_loss_behind_argmax_is_refused_with_the_line_of_argmax():
    program = Program()
    w = program.parameter("w", (3,), dtype="float64")
    blocking, index = here(), ops.argmax(w)
    loss = ops.cast(index, dtype="float64")
    line = here(1)
    assert told(CompileError, lambda: program.minimize(loss, sgd(0.1))) == (
        f"{line}: minimize(loss: float64[]): the loss does not depend on any trainable parameter; "
        f"{blocking}: argmax stops the gradient"
    )


def test_a_loss_behind_a_cut_is_refused_with_the_line_of_the_cut():
    program = Program()
    w = program.parameter("w", (), dtype="float64")
    blocking, loss = here(), ops.stop_gradient(w)
    with pytest.raises(CompileError, match=rf"; {blocking}: stop_gradient stops the gradient$"):
        program.minimize(loss, sgd(0.1))


def test_integer_casts_in_the_path_of_the_labels_are_no_matter():
    program = Program()
    w = program.parameter("w", (3,), dtype="float64")
    label = program.input("label", "int64", (3,))
    target = ops.cast(ops.cast(label, dtype="int32"), dtype="float64")
    [(_, dw)] = program.minimize(ops.sum(ops.square(w - target)), sgd(0.1))
    feeds = {"w": X, "label": [1, 0, 1]}
    assert value_of(dw, feeds).tolist() == [0, 4, 4]
    types = [desc.type for desc in program.block.desc.ops if desc.gradient_of]
    assert "cast" not in types, "no gradient op for a cast of integers"


def test_a_loss_that_is_a_parameter_trains_it():
    program = Program()
    w = program.parameter("w", (), dtype="float64")
    [(_, dw)] = program.minimize(w, sgd(0.5))
    assert value_of(dw, {"w": 3.0}) == 1


def test_a_loss_that_is_an_input_is_refused():
    program = Program()
    program.parameter("w", (), dtype="float64")
    x = program.input("x", "float64", ())
    line = here(1)
    assert told(CompileError, lambda: program.minimize(x, sgd(0.1))) == (
        f"{line}: minimize(loss: float64[]): the loss does not depend on any trainable parameter"
    )


def test_a_parameter_that_is_asked_for_and_not_reached_is_an_error():
    program = Program()
    v, w = (program.parameter(name, (), dtype="float64") for name in "vw")
    line = here(2)
    with pytest.raises(CompileError) as error:
        program.minimize(w * w, sgd(0.1), [w, v])
    assert str(error.value) == f"{line}: minimize(loss: float64[]): the loss does not depend on 'v'"


def test_a_parameter_that_nothing_trains_is_an_error_at_compile():
    program = Program()
    program.parameter("idle", ())
    w = program.parameter("w", ())
    program.minimize(w * w, sgd(0.1))
    assert told(CompileError, lambda: program.compile()) == (
        "no loss trains the parameter 'idle'; minimize a loss that depends on it, or declare trainable=False"
    )


# Orders


def test_x_to_the_fourth_is_right_up_to_the_fourth_order():
    x = define(Block(), "x", (2,))
    y, at = ops.square(ops.square(x)), np.array([1.0, 2.0])
    for wanted in (4 * at**3, 12 * at**2, 24 * at, [24.0, 24.0]):
        y = given(gradients(y, [x])[0])
        np.testing.assert_allclose(value_of(y, {"x": at}), wanted, rtol=1e-12)


def test_a_sum_of_first_and_second_order_paths_keeps_both():
    for function, wanted in (
        (ops.tanh, lambda t: (1 - t**2) - 2 * t * (1 - t**2)),
        (ops.exp, lambda t: 2 * t),
    ):
        x = define(Block(), "x")
        y = function(x)
        [slope] = gradients(y, [x])
        [dx] = gradients(given(slope) + y, [x])
        t = {ops.tanh: np.tanh, ops.exp: np.exp}[function](0.3)
        assert value_of(given(dx), {"x": 0.3}) == pytest.approx(wanted(t), rel=1e-12)


@pytest.mark.parametrize("name", ["tanh", "exp", "sigmoid", "sin", "softmax", "log_softmax"])
def test_functions_are_right_up_to_the_third_order(name: str):
    x = define(Block(), "x", (2, 3))
    check_orders(OPS[name](x), [x], {"x": rng().normal(size=(2, 3))}, 3)


def test_a_matmul_within_a_function_is_right_up_to_the_third_order():
    block = Block()
    a, b = define(block, "a", (2, 3)), define(block, "b", (3, 2))
    feeds = {"a": rng().normal(size=(2, 3)), "b": rng().normal(size=(3, 2))}
    check_orders(ops.tanh(a @ b), [a, b], feeds, 3)


def test_a_convolution_within_a_function_is_right_up_to_the_third_order():
    block = Block()
    x, w = define(block, "x", (2, 5, 4, 2)), define(block, "w", (3, 2, 2, 3))
    feeds = {"x": rng().normal(size=(2, 5, 4, 2)), "w": rng().normal(size=(3, 2, 2, 3))}
    check_orders(ops.tanh(ops.conv2d(x, w, stride=(2, 1), padding=(1, 0))), [x, w], feeds, 3)


def test_a_max_pool_within_a_function_is_right_up_to_the_third_order():
    x = define(Block(), "x", (1, 4, 4, 2))
    check_orders(
        ops.max_pool2d(ops.exp(x), window=(2, 2), stride=(2, 2)), [x], {"x": rng().normal(size=(1, 4, 4, 2))}, 3
    )


def test_a_batch_norm_is_right_up_to_the_third_order():
    block = Block()
    x, scale, bias = define(block, "x", (5, 2)), define(block, "scale", (2,)), define(block, "bias", (2,))
    mean, variance = define(block, "mean", (2,)), define(block, "variance", (2,))
    y, *_ = ops.batch_norm(x, scale, bias, mean, variance)
    feeds = {
        "x": rng().normal(size=(5, 2)),
        "scale": np.array([0.7, 1.3]),
        "bias": np.array([0.1, -0.4]),
        "mean": np.zeros(2),
        "variance": np.ones(2),
    }
    check_orders(y, [x, scale, bias], feeds, 3)


def test_a_gradient_penalty_trains_through_the_gradient_of_an_input():
    """loss = |d tanh(x . w) / dx|^2, for which d loss / d w is known."""
    block = Block()
    x, w = define(block, "x", (3,)), define(block, "w", (3,))
    [dx] = gradients(ops.tanh(ops.sum(x * w)), [x])
    [dw] = gradients(ops.sum(ops.square(given(dx))), [w])
    a, v = np.array([0.3, -0.2, 0.5]), np.array([0.4, 0.1, -0.3])
    t = np.tanh(a @ v)
    slope = 1 - t**2
    wanted = 2 * slope**2 * v + (v @ v) * 2 * slope * (-2 * t * slope) * a
    np.testing.assert_allclose(value_of(given(dw), {"x": a, "w": v}), wanted, rtol=1e-12)


def test_a_hessian_times_a_vector_is_the_gradient_of_a_product():
    block = Block()
    x, v = define(block, "x", (3,)), define(block, "v", (3,))
    y = ops.sum(x * x * x) + x[0] * x[1] * x[2]
    slope = directional(y, [x], [v])
    [hv] = gradients(slope, [x])
    a, b = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    hessian = np.array([[6, 3, 2], [3, 12, 1], [2, 1, 18]])
    np.testing.assert_allclose(value_of(given(hv), {"x": a, "v": b}), hessian @ b, rtol=1e-12)


def test_a_second_gradient_that_vanishes_is_none_or_zero_and_never_wrong():
    x = define(Block(), "x", (2,))
    [first] = gradients(3.0 * x, [x])
    [second] = gradients(given(first), [x])
    assert second is None


# Twice


def test_gradients_of_one_loss_twice_are_two_sets_that_do_not_add_up():
    x = define(Block(), "x")
    loss = ops.square(x)
    [one], [other] = gradients(loss, [x]), gradients(loss, [x])
    assert given(one).name != given(other).name
    assert values_of([given(one), given(other)], {"x": 3.0}) == [6, 6]


def test_a_loss_made_by_an_op_of_several_outputs_is_differentiated():
    x = define(Block(), "x", (3,))
    pieces = ops.split(x * x, sizes=(1, 2))
    [dx] = gradients(pieces[1], [x])
    assert value_of(given(dx), {"x": X}).tolist() == [0, 4, 6]


def test_two_losses_on_one_parameter_update_it_one_after_the_other_from_gradients_at_the_start():
    program = Program()
    w = program.parameter("w", (), constant(4.0), dtype="float64")
    [(_, one)] = program.minimize(w * w, sgd(0.1))
    [(_, other)] = program.minimize(3.0 * w, sgd(0.01))
    new = program.block.value(program.compile().desc.blocks[0].updates[0].tensor)
    found = values_of([one, other, new], {"w": 4.0})
    assert [float(v) for v in found] == pytest.approx([8, 3, 4 - 0.8 - 0.03], rel=1e-15)


def test_two_losses_of_adversaries_each_train_their_own_parameters():
    program = Program()
    g, d = (program.parameter(name, (), constant(1.0), dtype="float64") for name in "gd")
    fake = g * 2.0
    judged = d * fake
    [(of_d, dd)] = program.minimize(judged, sgd(0.1), [d])
    [(of_g, dg)] = program.minimize(-judged, sgd(0.1), [g])
    assert (of_d.name, of_g.name) == ("d", "g")
    updates = {u.state: u.tensor for u in program.compile().desc.blocks[0].updates}
    new = [program.block.value(updates[name]) for name in "dg"]
    found = values_of([dd, dg, *new], {"g": 3.0, "d": 5.0})
    assert [float(v) for v in found] == pytest.approx([6, -10, 5 - 0.6, 3 + 1.0], rel=1e-15)


def test_gradients_are_found_where_the_tensor_says_and_not_by_name():
    block = Block()
    x = define(block, "x@GRAD")
    [dx] = gradients(x * x, [x])
    assert block.tensors[given(dx).name].gradient_of == "x@GRAD"


# Stages and lines


def stages(block: Block) -> dict[str, list[str]]:
    """The op types of each stage, constants left out."""
    found: dict[str, list[str]] = {}
    for desc in block.desc.ops:
        if desc.type != "constant":
            found.setdefault(pb.Stage.Name(desc.stage).removeprefix("STAGE_"), []).append(desc.type)
    return found


def test_gradient_ops_are_told_from_derivative_ops_and_all_have_the_line_of_what_they_differentiate():
    program = Program()
    x = program.input("x", "float64", ("n", 2))
    w = program.parameter("w", (2, 3), dtype="float64")
    v = program.parameter("v", (3, 1), dtype="float64")
    first = here(1)
    h = x @ w
    activation = here(1)
    h = ops.tanh(h)
    second = here(1)
    y = h @ v
    line = here(1)
    program.minimize(ops.sum(y), sgd(0.1))
    lines = {desc.id: program.locations.text(desc.location) for desc in program.block.desc.ops}
    origin = {desc.id: desc.type for desc in program.block.desc.ops}
    found = [
        (desc.type, origin[desc.gradient_of], pb.Stage.Name(desc.stage)[6:], lines[desc.id])
        for desc in program.block.desc.ops
        if desc.gradient_of
    ]
    assert found == [
        ("reshape", "sum", "DERIVATIVE", line),
        ("broadcast_to", "sum", "DERIVATIVE", line),
        ("matmul", "matmul", "DERIVATIVE", second),
        ("outer_sum", "matmul", "GRADIENT", second),
        ("mul", "tanh", "DERIVATIVE", activation),
        ("sub", "tanh", "DERIVATIVE", activation),
        ("mul", "tanh", "DERIVATIVE", activation),
        ("matmul", "matmul", "DERIVATIVE", first),
        ("outer_sum", "matmul", "GRADIENT", first),
    ]
    assert stages(program.block)["UPDATE"] == ["sgd", "sgd"]


def test_what_is_the_gradient_of_both_a_parameter_and_an_activation_counts_as_gradient():
    program = Program()
    w = program.parameter("w", (2,), dtype="float64")
    x = program.input("x", "float64", (2,))
    dx, dw = gradients(ops.sum(ops.square(x + w)), [x, w])
    assert given(dx).name == given(dw).name
    [made] = [desc for desc in program.block.desc.ops if given(dw).name in desc.outputs]
    assert made.stage == pb.STAGE_GRADIENT


def test_ops_of_an_inner_differentiation_are_forward_of_the_outer_loss():
    program = Program()
    w = program.parameter("w", (2,), dtype="float64")
    x = program.input("x", "float64", (2,))
    [dx] = gradients(ops.sum(ops.square(x * w)), [x])
    inner = len(program.block.desc.ops)
    assert "DERIVATIVE" in stages(program.block)
    program.minimize(ops.sum(ops.square(given(dx))), sgd(0.1))
    kept = [desc for desc in program.compile().desc.blocks[0].ops if desc.id <= inner]
    assert {desc.stage for desc in kept} == {pb.STAGE_FORWARD}
    assert any(desc.gradient_of for desc in kept)


def test_a_gradient_that_the_outer_loss_does_not_use_keeps_its_stage():
    program = Program()
    w = program.parameter("w", (2,), dtype="float64")
    loss = ops.sum(ops.square(w))
    [dw] = gradients(loss, [w])
    program.minimize(loss, sgd(0.1))
    made = next(desc for desc in program.block.desc.ops if given(dw).name in desc.outputs)
    assert made.stage in (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE)


def test_a_constant_shared_by_stages_is_forward():
    program = Program()
    w = program.parameter("w", (2,), dtype="float64")
    gradients(ops.sum(ops.square(w)), [w])
    ops.exp(w * 2.0)
    assert {desc.stage for desc in program.block.desc.ops if desc.type == "constant"} == {pb.STAGE_FORWARD}


def test_every_gradient_tensor_names_what_it_is_the_gradient_of():
    program = Program()
    x = program.input("x", "float64", (2,))
    w = program.parameter("w", (2,), dtype="float64")
    loss = ops.sum(ops.tanh(x * w))
    [(_, dw)] = program.minimize(loss, sgd(0.1))
    assert program.block.tensors[dw.name].gradient_of == "w"
    named = {tensor.gradient_of for tensor in program.block.desc.tensors}
    assert named >= {loss.name, "w"}


# Compiling


def test_compiling_twice_gives_the_same_bytes_and_leaves_the_training_block_alone():
    program = Program()
    x = program.input("x", "float64", ("n", 2))
    w = program.parameter("w", (2, 1), dtype="float64")
    loss = ops.mean(ops.square(x @ w))
    program.minimize(loss, sgd(0.1))
    program.metrics(error=loss)
    program.outputs(y=x @ w)
    before = program.block.desc.SerializeToString(deterministic=True)
    one, other = (program.compile(n=4) for _ in range(2))
    assert one.desc.SerializeToString(deterministic=True) == other.desc.SerializeToString(deterministic=True)
    assert program.block.desc.SerializeToString(deterministic=True) == before


def test_what_is_added_after_compiling_is_in_the_next_compiled_program():
    program = Program()
    w = program.parameter("w", (), dtype="float64")
    program.minimize(w * w, sgd(0.1))
    first = program.compile()
    double = w * 2.0
    program.fetch("double", double)
    second = program.compile()
    assert [f.name for f in first.desc.blocks[0].fetches] == ["loss", "rate"]
    assert [f.name for f in second.desc.blocks[0].fetches] == ["loss", "rate", "double"]
