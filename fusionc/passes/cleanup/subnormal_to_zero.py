import math
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from weakref import WeakKeyDictionary

import numpy as np

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import MICROSOFT
from fusionc.model.tensors import Array, float_info
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import bits_of
from fusionc.rewrite import Match, Miss, Pass, Pattern, Result, Tape, refuse

# In this file, a difference is the change of a value that follows if subnormal elements of a
# constant become 0.
_CHUNK = 1 << 16  # elements that are checked together; they fit into the cache
# for each examined constant, whether it has subnormal elements, so that it is read only once
_known_subnormals: WeakKeyDictionary[Edge, bool] = WeakKeyDictionary()
_MAX_FACTOR = 2.0**40  # factor by which all operators together may enlarge a difference
_DOMAINS = ("", MICROSOFT)
_MAX_VALUES = 5_000  # the search gives up after this many values

# Operators that compute with a constant, and the positions of the inputs that may be the constant.
_CONSTANT_INPUTS = {
    **dict.fromkeys(("Conv", "ConvTranspose", "FusedConv"), (1, 2)),
    **dict.fromkeys(names_with(Trait.RECURRENT), (1, 2, 3)),
    **dict.fromkeys(("MatMul", "FusedMatMul", "Add", "Sub", "Mul"), (0, 1)),
    "Gemm": (0, 1, 2),
    "BatchNormalization": (1, 2, 3),
    "PRelu": (1,),
    "Gather": (0,),
}
# Operators that keep or shrink a difference in their first input, or enlarge it only a little.
_TAME = (names_with(Trait.SELECTS, Trait.ACTIVATION) - names_with(Trait.JUMPS) - {"Sigmoid"}) | {
    "Abs", "AveragePool", "Dropout", "Erf", "GlobalAveragePool", "GlobalMaxPool", "Neg", "Pad",
    "QuickGelu", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Resize",
}  # fmt: skip
_SUMS = ("Conv", "ConvTranspose", "FusedConv", "Gemm", "MatMul", "FusedMatMul")
# Operators that end the search, as sums do: they add larger numbers, which absorb the difference.
_ABSORBING = ("Sigmoid", "Softmax", "LogSoftmax", "Exp", "LSTM", "GRU", "RNN")
# Operators whose result may have only elements that differ, without larger numbers next to them.
_LEAVES_OUT = (
    "Compress", "Gather", "GatherElements", "GatherND", "ReduceMax", "ReduceMin", "Slice", "Split",
)  # fmt: skip
# Operators that may replace the larger numbers by 0, so that a sum after them has only small terms.
_CUTS_OFF = ("Clip", "HardSigmoid", "HardSwish", "Max", "Min", "Relu")
_NORMS = (
    "BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
)  # fmt: skip
_BIAS = 2  # the input of sums and normalizations that has the bias


# Each of these functions returns the factor by which a node may enlarge a difference in `value`.


def _first_input(node: Node, value: Edge) -> float:
    """1 if the node reads the value only as its first input, else infinity."""
    return math.inf if any(read is value for read in node.inputs[1:]) else 1.0


def _any_input(node: Node, value: Edge) -> float:
    return 1.0


def _factors(node: Node, value: Edge) -> float:
    """The largest absolute element of the constants among the other inputs, at least 1."""
    others = (read.constant() for read in node.inputs if read is not None and read is not value)
    return max(
        (float(np.abs(array).max(initial=1)) for array in others if array is not None), default=1.0
    )


def _slope(node: Node, value: Edge) -> float:
    """The steepest slope of an activation: of its attributes, or of the constant of a PRelu."""
    if node.has_references:
        return math.inf
    largest = _factors(node, value) if node.op == "PRelu" else 1.0
    attributes = (float(node.attr(name, 1.0)) for name in ("alpha", "gamma"))
    return _first_input(node, value) * largest * math.prod(max(1.0, abs(a)) for a in attributes)


def _divisor(node: Node, value: Edge) -> float:
    divisor = None if node.inputs[1] is None else node.inputs[1].constant()
    smallest = 0.0 if divisor is None else float(np.abs(divisor).min(initial=1))
    return _first_input(node, value) / smallest if smallest else math.inf


def _deviation(node: Node, value: Edge) -> float:
    """The largest element of the scale, divided by the smallest possible standard deviation, which
    is the square root of epsilon.
    """
    epsilon = 0.0 if node.has_references else float(node.attr("epsilon", 0.0))
    if epsilon <= 0:
        return math.inf
    return _first_input(node, value) * _factors(node, value) / math.sqrt(epsilon)


def _pool(node: Node, value: Edge) -> float:
    """1 if the pool does not return the indices of its maxima, else infinity."""
    return 1.0 if all(output is None for output in node.outputs[1:]) else math.inf


def _cast(node: Node, value: Edge) -> float:
    to = None if node.outputs[0] is None else node.outputs[0].dtype
    return 1.0 if to is not None and to.kind == "f" else math.inf


_FACTOR_RULES: dict[str, Callable[[Node, Edge], float]] = {
    **dict.fromkeys(_TAME, _first_input),
    **dict.fromkeys((*(names_with(Trait.ACTIVATION) & _TAME), "PRelu"), _slope),
    **dict.fromkeys(("Add", "Sub", "Sum", "Mean", "Max", "Min", "Concat"), _any_input),
    **dict.fromkeys(("Mul", *_SUMS), _factors),
    **dict.fromkeys(_ABSORBING, _first_input),
    **dict.fromkeys(_NORMS, _deviation),
    "Div": _divisor,
    "MaxPool": _pool,
    "Cast": _cast,
}
_END_OF_SEARCH = frozenset((*_ABSORBING, *_SUMS))


def _is_subnormal(array: Array) -> Array:
    """Whether each element is subnormal."""
    return np.asarray((np.abs(array) < float_info(array.dtype).smallest_normal) & (array != 0))


def count_subnormal(array: Array) -> int:
    """The number of subnormal elements of float32 or float64; 0 for other types."""
    if array.dtype.kind != "f" or array.itemsize < 4:
        return 0
    bits = array.reshape(-1).view(array.dtype.str.replace("f", "u"))
    count = 0
    end = (2 << np.finfo(array.dtype).nmant) - 1
    for start in range(0, bits.size, _CHUNK):
        magnitudes = bits[start : start + _CHUNK] << 1  # drops the sign
        magnitudes -= 1  # 0 becomes the largest integer
        if magnitudes.min() < end:
            count += int(np.count_nonzero(magnitudes < end))
    return count


def _has_subnormals(constant: Edge) -> bool:
    if constant not in _known_subnormals:
        _known_subnormals[constant] = count_subnormal(bits_of(constant)) > 0
    return _known_subnormals[constant]


def _find(graph: Graph) -> Iterator[Match | Miss]:
    for op, positions in _CONSTANT_INPUTS.items():
        for node in (*graph.of_operator(op), *graph.of_operator(op, MICROSOFT)):
            constants = _constants_of(node, positions)
            if not constants:
                yield Miss(node, "none of its weights is a constant of this graph")
            for constant in constants:
                if _has_subnormals(constant):
                    nodes = () if constant.producer is None else (constant.producer,)
                    yield Match(graph, nodes, (constant,), {"constant": constant})
                else:
                    yield Miss(node, "its weights have no subnormal element of float32 or float64")


def _constants_of(node: Node, positions: Sequence[int]) -> list[Edge]:
    """The constants at these inputs of a node that the rewrite may replace."""
    values = [node.inputs[position] for position in positions if position < len(node.inputs)]
    return [
        value
        for value in values
        if value is not None
        and value.is_constant
        and not value.is_pinned
        and value.graph is node.graph
    ]


class _Reached:
    """The values that a small difference reaches, each with the factor by which the difference may
    have grown.

    The values are visited in graph order, so that most of them are visited only once. In a value of
    `alone`, all elements may differ; in a value of `cut`, all elements except zeros.
    """

    def __init__(self) -> None:
        self.factors: dict[Edge, float] = {}
        self.alone: set[Edge] = set()
        self.cut: set[Edge] = set()
        self.sums: list[tuple[Node, float]] = []  # the sums of values in `cut`, with their factors
        self._pending: list[tuple[float, int, float, Edge]] = []

    def add(self, outputs: Sequence[Edge | None], factor: float, *marks: set[Edge]) -> None:
        for value in filter(None, outputs):
            known = self.factors.get(value, 0.0)
            is_new = any(value not in mark for mark in marks)
            for mark in marks:
                mark.add(value)
            if is_new or known < factor:
                self.factors[value] = factor = max(known, factor)
                position = 0.0 if value.producer is None else value.producer.position
                heappush(self._pending, (position, value.serial, factor, value))

    def pop(self) -> Iterator[tuple[Edge, float]]:
        """Each added value, with its final factor."""
        while self._pending:
            *_, factor, value = heappop(self._pending)
            if factor == self.factors[value]:
                yield value, factor


def _require_small_effect(constant: Edge) -> None:
    """Refuse if a tiny change of the constant may have a large effect on the outputs."""
    if constant.is_output:
        refuse("the constant is an output")
    for user in constant.outputs:
        positions = _CONSTANT_INPUTS.get(user.op, ()) if user.domain in _DOMAINS else ()
        if any(
            read is constant and position not in positions
            for position, read in enumerate(user.inputs)
        ):
            refuse("the constant has other uses, too")
    reached = _Reached()
    for user in constant.outputs:
        is_alone = user.op == "Gather" and _has_small_row(user)
        reached.add(user.outputs, 1.0, *[reached.alone] * is_alone)
    _follow_each(reached)
    after_sums = _Reached()
    for node, factor in reached.sums:
        after_sums.add(node.outputs, factor)
    _follow_each(after_sums)


def _follow_each(reached: _Reached) -> None:
    for value, factor in reached.pop():
        if len(reached.factors) > _MAX_VALUES:
            refuse("too many operators follow the constant")
        _follow(value, factor, reached)


def _follow(value: Edge, factor: float, reached: _Reached) -> None:
    """Add the values that a difference in `value` reaches through its users.

    Refuses if the difference may become too large.
    """
    if any(graph is not graph.model.main for graph in value.output_of):
        refuse("outputs of subgraphs and functions are not followed")
    if value.is_output and value in reached.alone:
        refuse("the difference may be in all elements of an output")
    for user in value.outputs:
        enlarges = _FACTOR_RULES.get(user.op) if user.domain in _DOMAINS else None
        larger = math.inf if enlarges is None else factor * enlarges(user, value)
        if not larger <= _MAX_FACTOR:
            refuse(f"{user.op} may enlarge the difference")
        _reach(user, value, larger, reached)


def _reach(user: Node, value: Edge, factor: float, reached: _Reached) -> None:
    """Add what a difference in `value` reaches through one user, which may be a sum."""
    is_alone = _may_be_alone(user, value, reached)
    is_cut = value in reached.cut or user.op in _CUTS_OFF
    if is_alone or user.op not in _END_OF_SEARCH:
        marks = [reached.alone] * is_alone + [reached.cut] * is_cut
        reached.add(user.outputs, factor, *marks)
    elif is_cut and user.op in _SUMS and all(map(_is_small, user.inputs[_BIAS:])):
        reached.sums.append((user, factor))


def _may_be_alone(user: Node, value: Edge, reached: _Reached) -> bool:
    """Whether all elements of the result of a node may differ."""
    if value not in reached.alone and user.op not in _LEAVES_OUT:
        return False
    others: Sequence[Edge | None] = ()
    if user.op in (*_SUMS, *_NORMS):
        others = user.inputs[_BIAS : _BIAS + 1]
    elif user.op in ("Add", "Sub", "Sum", "Mean", "Concat"):
        others = [read for read in user.inputs if read not in reached.alone]
    return user.op not in _ABSORBING and all(map(_is_small, others))


def _is_small(other: Edge | None) -> bool:
    """Whether a difference still matters if it is added to this operand: the operand is omitted, or
    is a small constant.
    """
    array = None if other is None else other.constant()
    return other is None or (array is not None and bool(_are_small(array)))


def _has_small_row(gather: Node) -> bool:
    """Whether a Gather from a constant may read subnormal elements that matter."""
    table = None if gather.inputs[0] is None else gather.inputs[0].constant()
    if table is None or gather.has_references:
        return True
    axis = int(gather.attr("axis", 0)) % table.ndim
    others = tuple(other for other in range(table.ndim) if other != axis)
    return bool((_is_subnormal(table).any(others) & _are_small(table, others)).any())


def _are_small(array: Array, axes: tuple[int, ...] | None = None) -> Array:
    """Whether all elements along these axes are so small that a subnormal element matters."""
    info = float_info(array.dtype)
    largest = np.abs(array).max(axes, where=np.isfinite(array), initial=0)
    return np.asarray(largest * float(info.eps) < 2 * float(info.smallest_normal))


class SubnormalToZeroPass(Pass):
    """Subnormal elements of weights become 0, because they slow down processors up to a hundred
    times.

    before   Conv(x, W), if W has elements below the smallest normal number, as dead filters of
             trained models have
    after    the same with zeros in their place
    refuses  constants whose largest elements are so small that a subnormal element matters;
             constants whose users may enlarge the difference, for example by a division, a
             logarithm or a comparison, before other channels are added; constants with small rows
             that a Gather reads, or with small channels that a Split cuts off, if an output may
             consist of only these; the same constants after one sum, if a Relu, Clip, Max or Min
             may leave no larger number to add
    never    float16, whose subnormal numbers are useful and cost no time
    algebra  |(W + d)∗x − W∗x| ≤ Σ|d|·|x| with |d| < 2^−126.
             |d| is also smaller than the rounding of W, ε·max|W|.
             The difference matters only if the model multiplies it by more than 10^15
    source   onnxruntime's issues 5472, 7448 and 12959
    """

    numerics = "rounding"
    is_for_finite = True  # a subnormal number times infinity is infinite, 0 times infinity is NaN
    patterns = (Pattern("Subnormals", find=_find, operators=tuple(_CONSTANT_INPUTS)),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        array = m.constant.constant()
        if _are_small(array):
            refuse("all elements of the constant are small")
        _require_small_effect(m.constant)
        normal = np.where(_is_subnormal(array), array.dtype.type(0), array)
        return new.const(normal, like=m.constant)
