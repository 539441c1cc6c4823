import math
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from weakref import WeakKeyDictionary

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import MICROSOFT
from fusionc.model.tensors import Array, float_info
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import bits_of
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, refuse

_AT_ONCE = 1 << 16  # elements that are looked at together, in the cache: they may lie in a file
# whether a constant has subnormal elements: read once
_HAVE: WeakKeyDictionary[Edge, bool] = WeakKeyDictionary()
_FACTOR = 2.0**40  # by which operators may enlarge a difference, together
_DOMAINS = ("", MICROSOFT)
_FARTHEST = 5_000  # nodes; more of them are not looked at

# What computes with a constant, and at which of its inputs.
_COMPUTES = {
    **dict.fromkeys(("Conv", "ConvTranspose", "FusedConv"), (1, 2)),
    **dict.fromkeys(names_with(Trait.RECURRENT), (1, 2, 3)),
    **dict.fromkeys(("MatMul", "FusedMatMul", "Add", "Sub", "Mul"), (0, 1)),
    "Gemm": (0, 1, 2),
    "BatchNormalization": (1, 2, 3),
    "PRelu": (1,),
    "Gather": (0,),
}
# What hands a difference in its first input on as it is, or smaller, or a few times larger.
_HANDS_ON = (
    names_with(Trait.SELECTS, Trait.ACTIVATION) - names_with(Trait.JUMPS) - {"Sigmoid"}
) | {
    "Abs", "AveragePool", "Dropout", "Erf", "GlobalAveragePool", "GlobalMaxPool", "Neg", "PRelu",
    "Pad", "QuickGelu", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Resize",
}  # fmt: skip
_SUMS = ("Conv", "ConvTranspose", "FusedConv", "Gemm", "MatMul", "FusedMatMul")
# Behind these, and sums, nothing is left of it: other channels are added, or numbers that are not
# small.
_ENDS = "Sigmoid Softmax LogSoftmax Exp LSTM GRU RNN"


def _is_data(node: Node, value: Edge) -> float:
    return math.inf if any(read is value for read in node.inputs[1:]) else 1.0


def _anywhere(node: Node, value: Edge) -> float:
    return 1.0


def _by_factors(node: Node, value: Edge) -> float:
    """The largest of the constants among the other inputs."""
    others = (read.constant() for read in node.inputs if read is not None and read is not value)
    return max(
        (float(np.abs(array).max(initial=1)) for array in others if array is not None), default=1.0
    )


def _by_divisor(node: Node, value: Edge) -> float:
    divisor = None if node.inputs[1] is None else node.inputs[1].constant()
    smallest = 0.0 if divisor is None else float(np.abs(divisor).min(initial=1))
    return _is_data(node, value) / smallest if smallest else math.inf


def _by_deviation(node: Node, value: Edge) -> float:
    epsilon = 0.0 if node.has_references else float(node.attr("epsilon", 0.0))
    return (
        _is_data(node, value) * _by_factors(node, value) / math.sqrt(epsilon)
        if epsilon > 0
        else math.inf
    )


def _without_places(node: Node, value: Edge) -> float:
    return 1.0 if all(output is None for output in node.outputs[1:]) else math.inf


def _to_floats(node: Node, value: Edge) -> float:
    to = None if node.outputs[0] is None else node.outputs[0].dtype
    return 1.0 if to is not None and to.kind == "f" else math.inf


# How many times larger a difference in that input may be in what an operator makes of it.
_ENLARGES: dict[str, Callable[[Node, Edge], float]] = {
    **dict.fromkeys(_HANDS_ON, _is_data),
    **dict.fromkeys(("Add", "Sub", "Sum", "Mean", "Max", "Min", "Concat"), _anywhere),
    **dict.fromkeys(("Mul", *_SUMS), _by_factors),
    **dict.fromkeys(_ENDS.split(), _is_data),
    **dict.fromkeys(
        ("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"),
        _by_deviation,
    ),
    "Div": _by_divisor,
    "MaxPool": _without_places,
    "Cast": _to_floats,
}
_MIXES = frozenset((*_ENDS.split(), *_SUMS))


def _is_subnormal(array: Array) -> Array:
    """Which elements of floating-point numbers are not 0, and smaller than the smallest normal
    number.
    """
    return np.asarray((np.abs(array) < float_info(array.dtype).smallest_normal) & (array != 0))


def count_subnormal(array: Array) -> int:
    """How many elements of float32 or float64 are subnormal; none of other types is. A part is
    looked at at a time.
    """
    if array.dtype.kind != "f" or array.itemsize < 4:
        return 0
    bits = array.reshape(-1).view(array.dtype.str.replace("f", "u"))
    found = 0
    end = (2 << np.finfo(array.dtype).nmant) - 1
    for start in range(0, bits.size, _AT_ONCE):
        beside_sign = bits[start : start + _AT_ONCE] << 1
        beside_sign -= 1  # 0 becomes the largest number
        if beside_sign.min() < end:
            found += int(np.count_nonzero(beside_sign < end))
    return found


def _has_subnormals(constant: Edge) -> bool:
    if constant not in _HAVE:
        _HAVE[constant] = count_subnormal(bits_of(constant)) > 0
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
    """Refuses where the difference of a constant by a smallest normal number may grow on its way to
    the outputs.
    """
    if constant.is_output:
        refuse("the constant is an output")
    for user in constant.outputs:
        places = _COMPUTES.get(user.op, ()) if user.domain in _DOMAINS else ()
        if any(read is constant and place not in places for place, read in enumerate(user.inputs)):
            refuse("the constant is used in another way, too")
    reached: dict[Edge, float] = {}  # and how many times larger the difference may be there
    # in the order of the model: then most are looked at once
    pending: list[tuple[float, int, float, Edge]] = []

    def reach(value: Edge, times: float) -> None:
        if reached.get(value, 0.0) < times:
            reached[value] = times
            place = 0.0 if value.producer is None else value.producer.position
            heappush(pending, (place, value.serial, times, value))

    for made in (made for user in constant.outputs for made in user.outputs if made is not None):
        reach(made, 1.0)
    while pending:
        if len(reached) > _FARTHEST:
            refuse("too many operators follow")
        *_, times, value = heappop(pending)
        for behind, larger in _behind(value, times) if times == reached[value] else ():
            reach(behind, larger)


def _behind(value: Edge, times: float) -> Iterator[tuple[Edge, float]]:
    """The values that a small difference of this one reaches, and how many times larger it may be
    there, if it is so much larger here. Refuses where that is too much.
    """
    if any(graph is not graph.model.main for graph in value.output_of):
        refuse("what a subgraph or a function hands out is not followed")
    for user in value.outputs:
        enlarges = _ENLARGES.get(user.op) if user.domain in _DOMAINS else None
        larger = math.inf if enlarges is None else times * enlarges(user, value)
        if not larger <= _FACTOR:
            refuse(f"{user.op} may enlarge the difference")
        if user.op not in _MIXES:
            yield from ((output, larger) for output in user.outputs if output is not None)


class SubnormalToZeroPass(Pass):
    """Subnormal elements of weights become 0: many processors need up to a hundred times as long
    for them.

    before   Conv(x, W) with elements of W below the smallest normal number, as dead filters of
             trained models have
    after    the same with zeros in their place
    refuses  constants without larger elements beside, so that an element is less than half of the
             last place of the largest one; where what follows may enlarge the difference (a
             division, a logarithm, a comparison …) before other channels are added to it
    never    float16, whose subnormal numbers are in use and cost nothing
    algebra  |(W + d)∗x − W∗x| ≤ Σ|d|·|x| with |d| < 2^−126, and below the rounding of W, ε·max|W|;
             for this to show, what the model computes and multiplies it by would have to be beyond
             10^15
    source   onnxruntime's issues 5472, 7448 and 12959
    """

    numerics = "rounding"
    is_for_finite = True  # a subnormal number times infinity is infinite, 0 times infinity is NaN
    patterns = (Pattern("Subnormals", find=_find, operators=tuple(_COMPUTES)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        array = m.constant.constant()
        info = float_info(array.dtype)
        if np.abs(array).max(where=np.isfinite(array), initial=0) * float(info.eps) < 2 * float(
            info.smallest_normal
        ):
            refuse("there is nothing larger in the constant")
        _require_small_effect(m.constant)
        return new.const(
            np.where(_is_subnormal(array), array.dtype.type(0), array), like=m.constant
        )
