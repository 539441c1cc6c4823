import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.constants import would_double
from fusionc.passes._shared.target import require_floats
from fusionc.passes._shared.transpose_and_reshape import swaps_last_axes
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, either, keep, maybe, op, refuse, var

a = var("a")
b = var("b")
_A = op.Transpose(a, _as="first")
_B = op.Transpose(b, _as="second")


def _exchanges(node: Node) -> bool:
    """Whether a Transpose exchanges the axes of a matrix. Every operand of a Gemm is a matrix."""
    return bool(node.attr("perm") != [0, 1])


def _refuse_dequantized(m: Match) -> None:
    """Refuse a transposed operand that is dequantized from constants."""
    for value, node in ((m.a, m.first), (m.b, m.second)):
        producer = value.producer
        is_dequantized = producer is not None and producer.is_op("DequantizeLinear")
        if node is not None and is_dequantized and producer.inputs[0].is_constant:
            refuse(
                "onnxruntime transposes dequantized weights once when it loads the model, but a "
                "product does so in each run"
            )


def _transpose_inside(m: Match, new: Tape) -> Result:
    _refuse_dequantized(m)
    flags = {}
    for flag, name in (("transA", "first"), ("transB", "second")):
        node = getattr(m, name)
        if node is not None:
            flags[flag] = int(m.gemm.attr(flag)) ^ int(_exchanges(node))
    return new.Gemm(m.a, m.b, m.c, like=m.gemm, **flags)


def _transposed_gemm(m: Match, new: Tape) -> Result:
    """(a·b + c)ᵀ = bᵀ·aᵀ + cᵀ"""
    # Without an addend, onnxruntime exchanges the operands itself when it loads the model.
    if m.c is not None and m.b.is_constant:
        refuse(
            "onnxruntime packs constant weights once at load if they are the second operand, but "
            "in each run if they are the first"
        )
    if m.c is not None:
        m.require_opset(7, "the addend of a Gemm is broadcast in another way")
    flags = {"transA": int(not m.gemm.attr("transB")), "transB": int(not m.gemm.attr("transA"))}
    return new.Gemm(m.b, m.a, None if m.c is None else _column(m.c, new), like=m.gemm, **flags)


def _column(addend: Edge, new: Tape) -> Edge:
    """A constant addend, transposed as a matrix. Refuses an addend that is not constant, or that is
    large and used elsewhere.
    """
    array = addend.constant()
    if array is None or would_double(addend, array.size):
        refuse("the addend is not a constant that can be transposed")
    return addend if array.ndim == 0 else new.const(np.atleast_2d(array).T, like=addend)


def _to_gemm(m: Match, new: Tape) -> Result:
    m.a.require_rank()
    m.b.require_rank()
    m.require_opset(11, "Gemm requires an addend")
    require_floats(m.a)
    _refuse_dequantized(m)
    flags = [None if node is None else int(_exchanges(node)) for node in (m.first, m.second)]
    return new.Gemm(m.a, m.b, transA=flags[0], transB=flags[1])


def _exchanged_product(m: Match, new: Tape) -> Result:
    """aᵀ·bᵀ as (b·a)ᵀ."""
    if m.a.require_rank() != m.b.require_rank():
        refuse("the ranks differ")
    _refuse_dequantized(m)
    if any(
        value.producer is not None and value.producer.is_op("Transpose") for value in (m.a, m.b)
    ):
        refuse("a Transpose of a Transpose must be simplified first")
    product = new.MatMul(m.b, m.a)
    if m.third is not None:
        return product
    return new.Transpose(product, like=m.first, perm=m.first.attr("perm") or [1, 0])


def _all_swap(m: Match) -> bool:
    """Whether each Transpose in the match exchanges only the last two axes."""
    nodes = [getattr(m, name) for name in ("first", "second", "third")]
    return all(node is None or swaps_last_axes(node) for node in nodes)


def _has_transpose(m: Match) -> bool:
    """Whether an operand is transposed."""
    return m.first is not None or m.second is not None


def _third_exchanges(m: Match) -> bool:
    """Whether the Transpose of the product exchanges the axes."""
    return _exchanges(m.third)


def _is_transposed_matrix(m: Match) -> bool:
    """Whether an operand is transposed, and both operands may be matrices."""
    return _has_transpose(m) and _is_matrix(m)


class BatchMatMulFusionPass(Pass):
    """A Transpose of an operand, or of the result of a Gemm, is folded into the matrix product.

    before   Gemm(aᵀ, b, c?), Gemm(a, bᵀ, c?), Gemm(a, b, c?)ᵀ; MatMul(aᵀ, b), MatMul(a, bᵀ) of rank
             2; MatMul(aᵀ, bᵀ) of any rank
    after    Gemm with transA or transB, even if the Transpose stays because it is used elsewhere;
             MatMul(b, a)ᵀ, or MatMul(b, a) if a Transpose after the product undoes the Transpose
    refuses  ranks other than 2 for a Gemm; integers, for which runtimes lack a Gemm; a Transpose
             that moves axes other than the last two; Gemm(a, b, c)ᵀ below opset 7, or if c is
             not constant, or is large and used elsewhere, or if b is constant (the new Gemm would
             take up to 6 times as long); a MatMul that would become a Gemm below opset 11; a
             Transpose of dequantized weights, because onnxruntime transposes their integers once
             when it loads the model, and a product that transposes them takes 1.6 times as long
    algebra  aᵀ·bᵀ = (b·a)ᵀ; onnxruntime sums in another order if an operand is transposed
    source   CANN's BatchMatMulFusionPass and TransposedUpdateFusionPass
    """

    numerics = "rounding"
    aliases = ("transpose_matmul_fusion", "BatchmatmulFusionPass", "BatchMatMulTransposeFusionPass")
    patterns = (
        Pattern(
            "TransposeGemm",
            op.Gemm(either(keep(_A), a), either(keep(_B), b), maybe(var("c")), _as="gemm"),
            _transpose_inside,
            where=_has_transpose,
        ),
        Pattern(
            "GemmTransposed",
            op.Transpose(op.Gemm(a, b, maybe(var("c")), _as="gemm"), _as="third"),
            _transposed_gemm,
            where=_third_exchanges,
        ),
        Pattern(
            "ProductTransposed",
            op.Transpose(op.MatMul(_A, _B), _as="third"),
            _exchanged_product,
            where=_all_swap,
        ),
        Pattern(
            "TransposeMatMul",
            op.MatMul(either(_A, a), either(_B, b)),
            _to_gemm,
            where=_is_transposed_matrix,
        ),
        Pattern("TransposeBoth", op.MatMul(_A, _B), _exchanged_product, where=_all_swap),
    )


def _is_matrix(m: Match) -> bool:
    """Whether both operands may be matrices: only a product of matrices can become a Gemm."""
    return m.a.rank in (2, None) and m.b.rank in (2, None)
