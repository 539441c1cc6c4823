from __future__ import annotations

from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes.slicing import new_unsqueeze
from fusionc.passes.summation import Sizes, arranged, equation_of, joined, parted, sizes_of, summed
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest

_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64)


def _is_number(labels: str, sizes: Sizes) -> bool:
    return all(isinstance(sizes[label], int) for label in labels)


def _product(new: Tape, values: list[Edge], terms: list[str], result: str, sizes: Sizes) -> tuple[Edge, str]:
    """The sum of products of two values over what the result leaves out, and its labels in order."""
    shared = set(terms[0]) & set(terms[1])
    both = "".join(label for label in result if label in shared)
    first, second = ("".join(label for label in result if label in set(t) - shared) for t in terms)
    if result == both + second + first != both + first + second or (
        not both and len(second) > 1 and not _is_number(second, sizes) and _is_number(first, sizes)
    ):
        values, terms, first, second = values[::-1], terms[::-1], second, first
    (a, b), (left, right) = values, terms
    inner = "".join(label for label in (right if a.is_constant else left) if label in shared - set(both))
    if not inner or not (first or second):
        a = arranged(new, a, left, both + first + inner)
        b = arranged(new, b, right, both + second + inner)
        whole = both + first + second + inner
        if second:
            a = new_unsqueeze(new, a, range(len(both + first), len(both + first + second)))
        if both and first:
            b = new_unsqueeze(new, b, range(len(both), len(both + first)))
        return summed(new, new.Mul(a, b), whole, result)
    a, b = arranged(new, a, left, both + first + inner), arranged(new, b, right, both + inner + second)
    if both:
        made = new.MatMul(
            joined(new, a, [*both, first, inner], sizes),
            joined(new, b, [*both, inner, second], sizes),
        )
        return parted(new, made, [*both, first, second], sizes), both + first + second
    # Without a batch, the axes of the first value need not be joined, and one without axes is a vector.
    a = joined(new, a, [*first, inner], sizes)
    b = joined(new, b, [inner, second] if second else [inner], sizes)
    made = new.MatMul(a, b)
    return parted(new, made, [*first, second], sizes) if second else made, first + second


class EinsumPass(Pass):
    """Einsum of one or two values becomes Transpose, ReduceSum, Mul and MatMul.

    before   Einsum(a) that transposes and sums; Einsum(a, b)
    after    Transpose(ReduceSum(a)); Transpose(MatMul(a, b)) with Transposes of a and b, and Reshapes where several
             axes are summed or stay; Mul where nothing is summed; ReduceSum first where only one value has an axis
    refuses  an ellipsis; a diagonal; dimensions of one label that are not known to be equal, as onnxruntime broadcasts
             those of size 1; several axes to join of which more than one is unknown
    algebra  the definition of Einsum; sums are in another order
    source   CANN's EinsumPass
    """

    numerics = "rounding"
    patterns = (Pattern("Einsum", op.Einsum(rest("inputs"), _as="einsum")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if len(m.inputs) > 2:
            refuse("more than two values")
        terms, result = equation_of(m.einsum)
        sizes = sizes_of(terms, m.inputs)
        if m.inputs[0].elem_type not in _TYPES:
            refuse("elements without a product")
        if len(m.inputs) == 1:
            value, left = summed(new, m.inputs[0], terms[0], result)
        else:
            kept = [result + other for other in reversed(terms)]
            sums = [summed(new, v, term, keep) for v, term, keep in zip(m.inputs, terms, kept, strict=True)]
            value, left = _product(new, [v for v, _ in sums], [term for _, term in sums], result, sizes)
        return arranged(new, value, left, result)
