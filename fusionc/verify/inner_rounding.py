"""Measure how much the outputs of the reference (the original model) depend on the last place of
intermediate results: results of functions, and of sums of products.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from fusionc.model.functions import inlined
from fusionc.model.operators import opsets_of
from fusionc.model.tensors import byte_size, float_info, numpy_type, to_array
from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import graphs_in, is_external, tensors_of
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Feeds, Runner, closes_runners
from fusionc.verify.model_file import LARGEST_COPY, light_model
from fusionc.verify.seeding import seeded_runner

_MOST_NODES = 20_000
_APPROXIMATED = names_with(Trait.APPROXIMATED) | names_with(Trait.APPROXIMATED, domain=MICROSOFT)
_SUMS = names_with(Trait.WEIGHTED_SUMS) | names_with(Trait.WEIGHTED_SUMS, domain=MICROSOFT)
_DRAWS = range(8)
_MORE_DRAWS = range(8, 40)
# onnxruntime computes a Sigmoid as 0.5 plus a term, so a result near 0 has an error of the size of
# the last place of 0.5.
_NEAR_HALF = "Sigmoid"
# operators that contain such functions, each with the function that limits its precision
_GATED = {"LSTM": _NEAR_HALF, "GRU": _NEAR_HALF, "RNN": "Tanh"}
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
_WHERE_SINCE = 9  # opset
_ZERO = "zero of waves that choose elements"
# the largest factor of waves, as a power of ten: neighbouring floats then lie on different waves
_FASTEST = 12


class InnerRounding:
    """Runs the reference and moves some results of its functions, and of its sums of products, by
    one unit in the last place.

    Another kernel, for example of Erf, may give the next number. If the model amplifies that, as in
    1 + erf(-3.5), moving the inputs of the model does not show it. The same holds for a sum of
    products: moves of its many terms cancel, but another order of the terms may give the next
    number. In half of the draws each result moves as a whole. In the others some of its elements
    move up and others down, because a normalization would cancel a factor that all have in common.

    A Sigmoid that is written out with Exp counts as a Sigmoid. The written form keeps all digits of
    small results, while the operator loses some.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def draws(self, feeds: Feeds) -> Iterator[list[Any]]:
        """The outputs of the reference on `feeds`, once for each way of moving the inner values."""
        return self._drawn(feeds, _DRAWS)

    def more_draws(self, feeds: Feeds) -> Iterator[list[Any]]:
        """The outputs for other ways of moving the inner values. A divisor of a few units in the
        last place becomes 0 in few of all ways.
        """
        return self._drawn(feeds, _MORE_DRAWS)

    @closes_runners
    def _drawn(self, feeds: Feeds, numbers: Sequence[int]) -> Iterator[list[Any]]:
        with suppress(RunError, OSError, ValueError):
            model, folder = light_model(self._path)
            model = inlined(model)
            if (
                sum(map(byte_size, tensors_of(model))) > LARGEST_COPY
                or sum(len(graph.node) for graph in graphs_in(model.graph)) > _MOST_NODES
            ):
                return
            moves = _with_moves(model)
            if not moves:
                return
            yield from self._runs(seeded_runner(model, folder), feeds, moves, numbers)

    def _runs(
        self, runner: Runner, feeds: Feeds, moves: Mapping[str, _Move], numbers: Sequence[int]
    ) -> Iterator[list[Any]]:
        try:
            has_waves = any(move.kind == "waves" for move in moves.values())
            for draw in numbers:
                rng = np.random.default_rng(draw)
                is_whole = draw % 2 == 1 or not has_waves
                drawn = {name: move.drawn(rng, is_whole=is_whole) for name, move in moves.items()}
                yield runner.run({**feeds, **drawn})
        finally:
            runner.close()


@dataclass(frozen=True)
class _Move:
    """A scalar input of the model that moves a result."""

    dtype: Any
    kind: str  # a "factor", the "other factor" of elements that "waves" choose, or a "summand"

    def drawn(self, rng: np.random.Generator, *, is_whole: bool) -> Any:
        """The value of the input in one draw. With `is_whole` all elements of the result move
        alike.
        """
        step = float(float_info(np.dtype(self.dtype)).eps)
        down = 1 - step / 2
        up = 1 + step
        choices = {
            "factor": [down, 1, up] if is_whole else [1],
            "other factor": [down, up],
            "summand": [0, step / 8, step / 4],
            "waves": [0 if is_whole else 10 ** rng.uniform(3, _FASTEST)],
        }
        return np.asarray(rng.choice(choices[self.kind]), self.dtype)


@dataclass
class _Rewrite:
    """The added nodes and inputs that move the results of functions and of sums of products."""

    has_where: bool
    # for the result of each written-out Sigmoid, its factor; "" if that is 1
    sigmoids: Mapping[str, str]
    moves: dict[str, _Move] = field(default_factory=dict)

    def nodes_after(self, node: NodeProto, kinds: Mapping[str, int]) -> Iterator[NodeProto]:
        """The nodes that move the floats in a node's results, if the node rounds. The node's own
        results are then renamed.
        """
        is_written_out = node.output[:1] and node.output[0] in self.sigmoids
        function = _NEAR_HALF if is_written_out else _rounding_function(node)
        for index, name in enumerate(node.output if function else ()):
            kind = kinds.get(name) or kinds.get(node.input[0], 0)
            if not name or kind not in _FLOATS:
                continue
            value = node.output[index] = f"{name} before it is moved"
            if function == _NEAR_HALF and kind != TensorProto.FLOAT16:
                moved = f"{name} near a half"
                yield from self._near_half(value, moved, kind, self.sigmoids.get(name, ""))
                value = moved
            yield from self._scaled(value, name, kind)

    def _near_half(self, value: str, moved: str, kind: int, factor: str) -> Iterator[NodeProto]:
        """The nodes that move a Sigmoid by a part of the last place of 0.5, multiplied by its
        factor if it has one.
        """
        summand = self._input("summand", kind)
        if factor:
            yield helper.make_node("Mul", [summand, factor], [f"{moved}, times a factor"])
            summand = f"{moved}, times a factor"
        yield helper.make_node("Add", [value, summand], [moved])

    def _scaled(self, value: str, name: str, kind: int) -> Iterator[NodeProto]:
        """The nodes that multiply each element by one of two factors. A sine of the element chooses
        the factor; NaN and infinities get the first one, because their sines are NaN.
        """
        factor = self._input("factor", kind)
        if self.has_where:
            wide, long, wave, is_chosen, both = (
                f"{name} {part}" for part in ("wide", "long", "wave", "is chosen", "factors")
            )
            yield helper.make_node("Cast", [value], [wide], to=TensorProto.FLOAT)
            waves = self._input("waves", TensorProto.FLOAT)
            yield helper.make_node("Mul", [wide, waves], [long])
            yield helper.make_node("Sin", [long], [wave])
            yield helper.make_node("Greater", [wave, _ZERO], [is_chosen])
            other = self._input("other factor", kind)
            yield helper.make_node("Where", [is_chosen, other, factor], [both])
            factor = both
        yield helper.make_node("Mul", [value, factor], [name])

    def _input(self, kind: str, element_type: int) -> str:
        name = f"{kind} {len(self.moves)} that moves a result"
        self.moves[name] = _Move(numpy_type(element_type), kind)
        return name


def _rounding_function(node: NodeProto) -> str:
    """The operator that limits the precision of a result: an approximated function or a sum of
    products; "" if there is none.
    """
    activations = [a.s.decode() for a in node.attribute if a.name == "activation"]
    name = next(iter(activations), _GATED.get(node.op_type, node.op_type))
    return next((one for one in (name, node.op_type) if one in _APPROXIMATED | _SUMS), "")


def _written_sigmoids(model: ModelProto) -> dict[str, str]:
    """The results of x / (1 + Exp(z)) and Reciprocal(1 + Exp(z)), each with its factor x. The
    factor is "" if the result is the Sigmoid itself, as in 1 / (1 + Exp(z)) and Exp(z) / (1 +
    Exp(z)).
    """
    nodes = [node for graph in graphs_in(model.graph) for node in graph.node]
    ones = _ones(model, nodes)
    powers = {node.output[0] for node in _of_type(nodes, "Exp")}
    sums = _of_type(nodes, "Add")
    divisors = {n.output[0] for n in sums if ones & set(n.input) and powers & set(n.input)}
    quotients = [n for n in _of_type(nodes, "Div", "Reciprocal") if n.input[-1] in divisors]
    return {n.output[0]: "".join(set(n.input[:-1]) - ones - powers) for n in quotients}


def _of_type(nodes: Sequence[NodeProto], *names: str) -> list[NodeProto]:
    return [node for node in nodes if node.op_type in names]


def _ones(model: ModelProto, nodes: Sequence[NodeProto]) -> set[str]:
    """The names of constants that equal 1."""
    stored = {tensor.name for tensor in model.graph.initializer if _is_one(tensor)}
    return stored | {node.output[0] for node in nodes if any(map(_holds_one, node.attribute))}


def _holds_one(attribute: AttributeProto) -> bool:
    """Whether this is the value of a Constant that equals 1."""
    if attribute.name == "value_float":
        return attribute.f == 1
    return attribute.name == "value" and _is_one(attribute.t)


def _is_one(tensor: TensorProto) -> bool:
    is_number = tensor.data_type in _FLOATS and math.prod(tensor.dims) == 1
    return is_number and not is_external(tensor) and bool((to_array(tensor, "") == 1).all())


def _with_moves(model: ModelProto) -> dict[str, _Move]:
    """Move the results of functions and of sums of products by new scalar inputs. Return these
    inputs by name.
    """
    rewrite = _Rewrite(opsets_of(model).get("", 0) >= _WHERE_SINCE, _written_sigmoids(model))
    graphs = list(zip(graphs_in(model.graph), _element_types(model), strict=True))
    for graph, kinds in reversed(graphs):  # inner graphs first: a node is copied with its graphs
        nodes = [part for node in graph.node for part in (node, *rewrite.nodes_after(node, kinds))]
        kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)
    for name, move in rewrite.moves.items():
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(move.dtype))
        model.graph.input.append(helper.make_tensor_value_info(name, kind, []))
    if rewrite.has_where:
        model.graph.initializer.append(helper.make_tensor(_ZERO, TensorProto.FLOAT, [], [0]))
    return rewrite.moves


def _element_types(model: ModelProto) -> list[Mapping[str, int]]:
    """For each graph of the model, the types of its values and of the values of outer graphs."""
    with suppress(Exception):  # if onnx cannot infer types, only the declared ones are known
        model = onnx.shape_inference.infer_shapes(model)
    own = [
        {
            value.name: value.type.tensor_type.elem_type
            for value in (*graph.value_info, *graph.input, *graph.output)
        }
        for graph in graphs_in(model.graph)
    ]
    weights = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    every = {name: kind for kinds in own for name, kind in kinds.items()} | weights
    return [ChainMap(kinds, every) for kinds in own]
