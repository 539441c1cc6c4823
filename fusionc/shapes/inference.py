"""Element types and shapes: every node is asked once, in order, and again if a node before it has
changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, zip_longest

import onnx
from onnx import TensorProto

from fusionc.model import operators
from fusionc.model.build import build
from fusionc.model.graph import Edge, Graph, Model, Node, Shape, Types
from fusionc.model.tensors import UNKNOWN, ValueType
from fusionc.operators.runtime_operators import runtime_types
from fusionc.protos import shapeless
from fusionc.shapes.elements import SMALL, Element, elements_made, shape_made
from fusionc.shapes.expressions import INVENTED, certainty, is_invented
from fusionc.shapes.onnx_inference import LIKE_STANDARD, ask
from fusionc.shapes.overrides import is_fatal, trusted

# what shape arithmetic computes with
_OF_SHAPES = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
# Since this opset Scan hands its inputs to its subgraph one by one; before, it did so in batches.
_SCAN_OPSET = 9


def typed_model(proto: onnx.ModelProto, folder: str, target: str = "onnxruntime-cpu") -> Model:
    """The model in memory for the target runtime. It infers types when it is asked for them.

    Raises FusioncError for a model that is not in single assignment form or has a cycle.
    """
    model = build(proto, folder, target)
    model.types = TypeInference(model)
    return model


class TypeInference:
    """What is known about the types of all values of a model. Each is kept with its value;
    knowledge only grows.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._stale = {value for graph in model.graphs for value in graph.values.values()}
        self._is_inferred = False
        self._may_refresh = True  # once per pass
        for value, type_ in _declared(model):
            value.known_type = type_
        own = {dim for value in self._stale for dim in value.known_type.shape or ()}
        self._symbols = (
            symbol for number in count() if (symbol := f"{INVENTED}{number}") not in own
        )

    def of(self, value: Edge, *, rank_only: bool = False) -> ValueType:
        """The type of a value as far as it can be known. With `rank_only` its dimensions do not
        matter.
        """
        if not self._is_inferred or not _is_complete(value.known_type.shape, rank_only):
            self._refresh_for(value)
        return value.known_type

    def elements_of(self, value: Edge) -> list[Element] | None:
        """The elements of a vector or scalar of integers that is not constant, if known."""
        if value.elements is None or any(map(is_invented, value.elements)):
            self._refresh_for(value)
        return value.elements

    def _refresh_for(self, value: Edge) -> None:
        if self._stale and self._may_refresh and not value.graph.in_function:
            self._is_inferred = True
            self._may_refresh = False
            stale = self._stale
            self._stale = set()
            self._refresh(self._model.main, stale)

    def begin_pass(self) -> None:
        """A pass starts: it may refresh the types once."""
        self._may_refresh = True

    def new_symbol(self) -> str:
        """A name for an unknown dimension."""
        return next(self._symbols)

    def note_commit(self, replaced: Sequence[tuple[Edge, Edge]], new_nodes: Sequence[Node]) -> None:
        """The graph has changed. More may be known after the new values, unless they are as well
        known as the old ones.

        A new value inherits the type of the old one if onnx does not know the new operator.
        """
        for old, new in replaced:
            if new.producer in new_nodes and operators.is_foreign(new.producer):
                _inherit_type(new, old)
            if old in self._stale or not _is_as_settled(new, old):
                self._stale.add(new)
        for node in new_nodes:
            made = (value for value in node.outputs if value is not None)
            self._stale.update(value for value in made if not _is_settled(value))
            for body in node.subgraphs(recursive=True):
                self._stale.update(body.values.values())

    def _refresh(self, graph: Graph, stale: set[Edge]) -> None:
        """Ask about the nodes that read or make a stale value. A value that becomes better known is
        stale, too.
        """
        for node in graph.ordered():
            for body in node.bodies:
                if _hands_elements_in(node) and not stale.isdisjoint(node.inputs):
                    stale.update(_handed_in(node, body))
                self._refresh(body, stale)
            results = [value for body in node.bodies for value in body.outputs]
            if not stale.isdisjoint((*node.inputs, *node.outputs, *results)):
                stale.update(_better_known(node))


def _declared(model: Model) -> Iterator[tuple[Edge, ValueType]]:
    """The types that the model declares for the outputs of operators that onnx does not know."""
    for graph in model.graphs:
        own = graph.proto.output if isinstance(graph.proto, onnx.GraphProto) else ()
        declared = {info.name: info.type for info in (*graph.proto.value_info, *own)}
        for node in filter(operators.is_foreign, graph.nodes):
            for value in node.outputs:
                if value is not None and value.name in declared:
                    yield value, ValueType.of(declared[value.name])


def infer_node(node: Node) -> None:
    """Infer the types of the outputs of a node that is not in the graph yet.

    Raises onnx.shape_inference.InferenceError if the operator cannot take these inputs.
    """
    types = node.graph.model.types
    if operators.is_foreign(node) or all(
        value is None or types.of(value) != UNKNOWN for value in node.inputs
    ):
        _learn(node, _types_made(node, is_new=True))


def _better_known(node: Node) -> Sequence[Edge]:
    """Ask about a node in the graph. Return the outputs that are better known than before, or whose
    elements may be.
    """
    before = [(value, value.known_type) for value in node.outputs if value is not None]
    try:
        _learn(node, _types_made(node, is_new=False))
    except Exception:  # onnx or a rule gives up, for example for an attribute of another type
        return ()
    return [
        value for value, type_ in before if value.known_type is not type_ or _makes_shapes(value)
    ]


def _learn(node: Node, types: Sequence[ValueType]) -> None:
    """Add these types to the knowledge of the outputs of a node."""
    for output, type_ in zip(node.outputs, types, strict=False):
        if output is None or type_ == UNKNOWN:
            continue
        # onnx says that a sequence in a Loop always has the element shapes that it began with, and
        # that the parts of SplitToSequence keep the axis.
        if node.is_op("Loop", "SplitToSequence") or node.function is not None:
            type_ = replace(type_, other=shapeless(type_.other))
        learned = replace(type_, shape=_shape_learned(node, output, trusted(node, type_.shape)))
        if learned != output.known_type:
            output.known_type = learned
        if output is node.outputs[0] and _makes_shapes(output):
            output.elements = elements_made(node, output.known_type.elem_type) or output.elements


def _shape_learned(node: Node, output: Edge, inferred: Shape | None) -> Shape | None:
    """The best knowledge of each dimension: onnx's inference, shape arithmetic, or what was known
    before.
    """
    is_arithmetic = output is node.outputs[0] and not _is_complete(inferred)
    sources = (inferred, shape_made(node) if is_arithmetic else None, output.known_type.shape)
    return _most_certain([dims for dims in sources if dims is not None], node.graph.model.types)


def _most_certain(shapes: Sequence[Sequence[Element | None]], types: Types) -> Shape | None:
    """For each dimension the first of its most certain names, or a new name if it is unknown."""
    if not shapes:
        return None
    fitting = [shape for shape in shapes if len(shape) == len(shapes[0])]
    best = (max(dims, key=certainty) for dims in zip(*fitting, strict=True))
    return tuple(
        dim if isinstance(dim, int | str) and certainty(dim) else types.new_symbol() for dim in best
    )


def _types_made(node: Node, *, is_new: bool) -> Sequence[ValueType]:
    """The types of the outputs of a node that follow from its inputs; for a foreign node, those
    that are declared.
    """
    if is_fatal(node):
        return []
    is_ruled = operators.is_foreign(node) or len(node.outputs) == 1
    made = runtime_types(node) if is_ruled else None
    if not made and not _is_unknown(node):
        return ask(node, is_new=is_new)
    ruled = [ValueType(elem_type, shape) for elem_type, shape in made or ()]
    pairs = zip_longest(ruled, node.outputs)
    return [rule if rule and rule.elem_type else _known_type(old) for rule, old in pairs]


def _is_unknown(node: Node) -> bool:
    """Whether onnx has no rule for an operator, nor a function."""
    is_foreign = operators.is_foreign(node) and node.operator not in LIKE_STANDARD
    return is_foreign and node.function is None


def _known_type(output: Edge | None) -> ValueType:
    return UNKNOWN if output is None else output.known_type


def _hands_elements_in(node: Node) -> bool:
    """Whether a node is a Scan that hands its inputs to its subgraph one by one."""
    return node.is_op("Scan") and node.graph.opset >= _SCAN_OPSET


def _handed_in(scan: Node, body: Graph) -> Sequence[Edge]:
    """The inputs of the subgraph of a Scan, with the shapes that they get: the last inputs of the
    Scan lose one axis.
    """
    count = scan.attr("num_scan_inputs")
    axes = [None] * (len(scan.inputs) - count) + scan.attr("scan_input_axes", [0] * count)
    for value, outer, axis in zip(body.inputs, scan.inputs, axes, strict=False):
        # defaults come after all of these
        if outer is not None and (shape := outer.shape) is not None:
            dims = (dim for at, dim in enumerate(shape) if axis is None or at != axis % len(shape))
            value.known_type = replace(value.known_type, shape=tuple(dims))
    return body.inputs


def _is_settled(value: Edge) -> bool:
    """Whether no more can become known of a value: its shape is complete, and its elements make no
    shape.
    """
    return _is_complete(value.known_type.shape) and not _makes_shapes(value)


def _inherit_type(new: Edge, old: Edge) -> None:
    if old.known_type != UNKNOWN:
        new.known_type = old.known_type


def _is_as_settled(new: Edge, old: Edge) -> bool:
    return _is_settled(new) and old.known_type.shape == new.known_type.shape


def _makes_shapes(value: Edge) -> bool:
    """Whether the shapes of other values may depend on the elements of this one, which may have
    become known.
    """
    shape = value.known_type.shape
    if shape is None or len(shape) > 1 or any(isinstance(n, int) and n > SMALL for n in shape):
        return False
    return value.known_type.elem_type in _OF_SHAPES or value.is_constant


def _is_complete(shape: Shape | None, rank_only: bool = False) -> bool:
    return shape is not None and (rank_only or not any(map(is_invented, shape)))
