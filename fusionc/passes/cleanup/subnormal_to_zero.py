from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import MICROSOFT
from fusionc.model.tensors import Array, float_info
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse

_AT_ONCE = 1 << 22  # elements that are looked at together: they may lie in a file
_HAVE: WeakKeyDictionary[Edge, bool] = WeakKeyDictionary()  # whether a constant has subnormal elements: read once
_FACTOR = 2.0**40  # by which one operator may enlarge a difference
_EPSILON = 1e-12  # of a normalization, which divides by √epsilon or more
_DOMAINS = ("", MICROSOFT)
_FARTHEST = 5_000  # nodes; more of them are not looked at

# What computes with a constant, and at which of its inputs.
_COMPUTES = {
    **dict.fromkeys(("Conv", "ConvTranspose", "FusedConv"), (1, 2)),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (1, 2, 3)),
    **dict.fromkeys(("MatMul", "FusedMatMul", "Add", "Sub", "Mul"), (0, 1)),
    "Gemm": (0, 1, 2),
    "BatchNormalization": (1, 2, 3),
    "PRelu": (1,),
    "Gather": (0,),
}
# What hands a difference in its first input on as it is, or smaller, or a few times larger.
_HANDS_ON = """
Abs AveragePool Celu Clip DepthToSpace Dropout Elu Erf Expand Flatten Gather Gelu GlobalAveragePool GlobalMaxPool
HardSigmoid HardSwish Identity LeakyRelu Mish Neg PRelu Pad ReduceMax ReduceMean ReduceMin ReduceSum Relu
QuickGelu Reshape Resize Selu Slice Softplus SpaceToDepth Split Squeeze Tile Transpose Unsqueeze
"""
_SUMS = ("Conv", "ConvTranspose", "FusedConv", "Gemm", "MatMul", "FusedMatMul")
# Behind these, and sums, nothing is left of it: other channels are added, or the result is pressed between two limits.
_ENDS = "Sigmoid Tanh Softmax LogSoftmax Exp LSTM GRU RNN"


def _is_data(node: Node, value: Edge) -> bool:
    return all(read is not value for read in node.inputs[1:])


def _anywhere(node: Node, value: Edge) -> bool:
    return True


def _by_small_factors(node: Node, value: Edge) -> bool:
    """Whether the constants among the other inputs are no large factors."""
    others = (read.constant() for read in node.inputs if read is not None and read is not value)
    return all(array is None or bool((np.abs(array) <= _FACTOR).all()) for array in others)


def _by_large_divisor(node: Node, value: Edge) -> bool:
    divisor = node.inputs[1].constant() if _is_data(node, value) and node.inputs[1] is not None else None
    return divisor is not None and bool((np.abs(divisor) >= 1 / _FACTOR).all())


def _by_large_deviation(node: Node, value: Edge) -> bool:
    return _is_data(node, value) and node.attr("epsilon", 0.0) >= _EPSILON and _by_small_factors(node, value)


def _without_places(node: Node, value: Edge) -> bool:
    return all(output is None for output in node.outputs[1:])


def _to_floats(node: Node, value: Edge) -> bool:
    to = None if node.outputs[0] is None else node.outputs[0].dtype
    return to is not None and to.kind == "f"


_STAYS_SMALL: dict[str, Callable[[Node, Edge], bool]] = {
    **dict.fromkeys(_HANDS_ON.split(), _is_data),
    **dict.fromkeys(("Add", "Sub", "Sum", "Mean", "Max", "Min", "Concat"), _anywhere),
    **dict.fromkeys(("Mul", *_SUMS), _by_small_factors),
    **dict.fromkeys(_ENDS.split(), _is_data),
    **dict.fromkeys(
        ("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"),
        _by_large_deviation,
    ),
    "Div": _by_large_divisor,
    "MaxPool": _without_places,
    "Cast": _to_floats,
}
_MIXES = frozenset((*_ENDS.split(), *_SUMS))


def _is_subnormal(array: Array) -> Array:
    """Which elements of floating-point numbers are not 0, and smaller than the smallest normal number."""
    return np.asarray((np.abs(array) < float_info(array.dtype).smallest_normal) & (array != 0))


def count_subnormal(array: Array) -> int:
    """How many elements of float32 or float64 are subnormal; none of other types is. A part is looked at at a time."""
    flat = array.reshape(-1) if array.dtype.kind == "f" and array.itemsize >= 4 else np.zeros(0)
    pieces = (flat[start : start + _AT_ONCE] for start in range(0, flat.size, _AT_ONCE))
    return sum(int(_is_subnormal(piece).sum()) for piece in pieces)


def _has_subnormals(constant: Edge) -> bool:
    if constant not in _HAVE:
        array = constant.constant()
        _HAVE[constant] = array is not None and count_subnormal(array) > 0
    return _HAVE[constant]


def _find(graph: Graph) -> Iterator[Match]:
    for op, places in _COMPUTES.items():
        for node in (*graph.of_operator(op), *graph.of_operator(op, MICROSOFT)):
            for constant in (node.inputs[place] for place in places if place < len(node.inputs)):
                if constant is None or not constant.is_constant or constant.is_pinned:
                    continue
                if constant.graph is graph and _has_subnormals(constant):
                    makers = () if constant.producer is None else (constant.producer,)
                    yield Match(graph, makers, (constant,), {"constant": constant})


def _require_small_effect(constant: Edge) -> None:
    """Refuses where the difference of a constant by a smallest normal number may grow on its way to the outputs."""
    if constant.is_output:
        refuse("the constant is an output")
    for user in constant.outputs:
        places = _COMPUTES.get(user.op, ()) if user.domain in _DOMAINS else ()
        if any(read is constant and place not in places for place, read in enumerate(user.inputs)):
            refuse("the constant is used in another way, too")
    made = (value for user in constant.outputs for value in user.outputs if value is not None)
    reached: dict[Edge, None] = dict.fromkeys(made)
    for value in (pending := list(reached)):
        if len(reached) > _FARTHEST:
            refuse("too many operators follow")
        new = [v for v in _behind(value) if v not in reached]
        reached.update(dict.fromkeys(new))
        pending += new


def _behind(value: Edge) -> Iterator[Edge]:
    """The values that a small difference of this one reaches. Refuses where it may grow."""
    if any(graph is not graph.model.main for graph in value.output_of):
        refuse("what a subgraph or a function hands out is not followed")
    for user in value.outputs:
        stays_small = _STAYS_SMALL.get(user.op) if user.domain in _DOMAINS else None
        if stays_small is None or not stays_small(user, value):
            refuse(f"{user.op} may enlarge the difference")
        if user.op not in _MIXES:
            yield from (output for output in user.outputs if output is not None)


class SubnormalToZeroPass(Pass):
    """Subnormal elements of weights become 0: many processors need up to a hundred times as long for them.

    before   Conv(x, W) with elements of W below the smallest normal number, as dead filters of trained models have
    after    the same with zeros in their place
    refuses  constants without larger elements beside, so that an element is less than half of the last place of the
             largest one; where what follows may enlarge the difference (a division, a logarithm, a comparison …)
             before other channels are added to it
    never    float16, whose subnormal numbers are in use and cost nothing
    algebra  |(W + d)∗x − W∗x| ≤ Σ|d|·|x| with |d| < 2^−126, and below the rounding of W, ε·max|W|; for this to show,
             what the model computes and multiplies it by would have to be beyond 10^15
    source   onnxruntime's issues 5472, 7448 and 12959
    """

    numerics = "rounding"
    is_for_finite = True  # a subnormal number times infinity is infinite, 0 times infinity is NaN
    patterns = (Pattern("Subnormals", find=_find, operators=tuple(_COMPUTES)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        array = m.constant.constant()
        info = float_info(array.dtype)
        if np.abs(array).max(where=np.isfinite(array), initial=0) * float(info.eps) < 2 * float(info.smallest_normal):
            refuse("there is nothing larger in the constant")
        _require_small_effect(m.constant)
        return new.const(np.where(_is_subnormal(array), array.dtype.type(0), array), like=m.constant)
