"""Products of matrices: deep ones, ones of many rows or columns, and those whose panels all work items share."""

from __future__ import annotations

from compiler import Value, ops
from fuzz.large.case import HALVES, SMALL, Case, Draw, Operand, elements


def matmul(draw: Draw) -> Case:
    """Return a product with one large extent, maybe of several matrices, with either operand transposed."""

    def sizes() -> tuple[tuple[int, ...], list[int], int]:
        m, n, k = (draw.small() for _ in range(3))
        batch = draw.pick((1, 1, 1, 1, 2, 3))
        axis = draw.pick("mnkkkk")
        m, n, k = (
            draw.large() if axis == "m" else m,
            draw.large() if axis == "n" else n,
            draw.depth() if axis == "k" else k,
        )
        return (batch, m, n, k), elements((batch, m, k), (batch, k, n), (batch, m, n)), batch * m * n * k

    return of_sizes(draw, *draw.fitting(sizes))


def large_matmul(draw: Draw) -> Case:
    """Return a product of which work items share panels, or are columns of all rows."""
    m, n = (draw.near(draw.pick((96, 128, 192, 256, 384, 512, 513, 640))) for _ in range(2))
    depth = max(draw.pick((70, 90, 130)) * 1_000_000 // (m * n), 256)
    return of_sizes(draw, 1, m, n, draw.near(-(-depth // 256) * 256))


def of_sizes(draw: Draw, batch: int, m: int, n: int, k: int) -> Case:
    """Return a product of these sizes, maybe with a bias and an activation behind it."""
    first, second = draw.chance(0.3), draw.chance(0.4)
    around = (batch,) if batch > 1 else ()
    a, b = (*around, k, m) if first else (*around, m, k), (*around, n, k) if second else (*around, k, n)
    ending = draw.pick(("", "", "relu", "add"))
    operands = {"a": Operand(a, "half"), "b": Operand(b, "half")}
    if ending:
        operands["bias"] = Operand((n,) if ending == "relu" else (*around, m, n))

    def write(given: dict[str, Value]) -> list[Value]:
        y = ops.matmul(given["a"], given["b"], transpose_a=first, transpose_b=second)
        if ending == "relu":
            return [ops.relu(y + given["bias"])]
        return [y + given["bias"] * 2.0 if ending else y]

    label = f"matmul{', a transposed' if first else ''}{', b transposed' if second else ''}, {ending or 'alone'}"
    has_gradients, has_kinks = draw.chance(0.6), ending == "relu"
    return Case(label, operands, write, HALVES, is_exact=True, has_gradients=has_gradients, has_kinks=has_kinks)


def outer_sum(draw: Draw) -> Case:
    """Return a gradient of weights over many rows."""

    def sizes() -> tuple[tuple[int, int, int], list[int], int]:
        m, n, k = draw.small(), draw.small(), draw.depth()
        return (m, n, k), elements((k, m), (k, n)), m * n * k

    m, n, k = draw.fitting(sizes)
    operands = {"a": Operand((k, m), "half"), "b": Operand((k, n), "half")}
    return Case(
        "outer_sum", operands, lambda x: [ops.outer_sum(x["a"], x["b"])], HALVES, is_exact=True, has_gradients=False
    )


def sparse(draw: Draw) -> Case:
    """Return a product of few numbers of each row, with many rows of either operand."""
    rows, count, table, n = draw.large(16384), draw.pick((1, 2, 3, 8)), draw.large(16384), draw.pick(SMALL[:12])
    operands = {
        "at": Operand((rows, count), f"below {table}"),
        "values": Operand((rows, count)),
        "w": Operand((table, n)),
    }
    return Case("sparse_matmul", operands, lambda x: [ops.sparse_matmul(x["at"], x["values"], x["w"])], is_exact=True)


MAKERS = (matmul, matmul, matmul, large_matmul, large_matmul, outer_sum, sparse)
