"""Inference of element types and shapes. Each node is inferred once, in topological order, and
again if more becomes known about its inputs or outputs.
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

# the element types of shape arithmetic
_SHAPE_TYPES = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
# Since this opset the subgraph of a Scan gets single elements along the scan axis. In opset 8 the
# inputs also had a batch axis.
_SCAN_OPSET = 9


def typed_model(proto: onnx.ModelProto, folder: str, target: str = "onnxruntime-cpu") -> Model:
    """The model in memory for the target runtime. Types are inferred on demand.

    Raises FusioncError for a model that is not in SSA form or has a cycle.
    """
    model = build(proto, folder, target)
    model.types = TypeInference(model)
    return model


class TypeInference:
    """Infers the types of all values of a model. The type of each value is stored in the value, and
    a known fact is never discarded. A value is stale if more may have become known about it.
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
        """The type of a value as far as it is known. If `rank_only` is true, the sizes of its
        dimensions may be missing.
        """
        if not self._is_inferred or not _is_complete(value.known_type.shape, rank_only):
            self._refresh_for(value)
        return value.known_type

    def elements_of(self, value: Edge) -> list[Element] | None:
        """The elements of an integer vector or scalar that is not a constant, if they are known."""
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
        """Note that a pass starts. A pass may refresh the types once."""
        self._may_refresh = True

    def new_symbol(self) -> str:
        """A name for an unknown dimension."""
        return next(self._symbols)

    def note_commit(self, replaced: Sequence[tuple[Edge, Edge]], new_nodes: Sequence[Node]) -> None:
        """Note that the graph has changed. A new value becomes stale unless its type is as complete
        as that of the replaced value.

        If onnx does not know the new operator, the new value inherits the type of the replaced
        value.
        """
        for old, new in replaced:
            if new.producer in new_nodes and operators.is_foreign(new.producer):
                _inherit_type(new, old)
            if old in self._stale or not _is_as_settled(new, old):
                self._stale.add(new)
        for node in new_nodes:
            outputs = (value for value in node.outputs if value is not None)
            self._stale.update(value for value in outputs if not _is_settled(value))
            for body in node.subgraphs(recursive=True):
                self._stale.update(body.values.values())

    def _refresh(self, graph: Graph, stale: set[Edge]) -> None:
        """Infer the nodes that read or produce a stale value. If more becomes known about an
        output, the output becomes stale, too.
        """
        for node in graph.ordered():
            for body in node.bodies:
                if _is_slicing_scan(node) and not stale.isdisjoint(node.inputs):
                    stale.update(_shaped_body_inputs(node, body))
                self._refresh(body, stale)
            results = [value for body in node.bodies for value in body.outputs]
            if not stale.isdisjoint((*node.inputs, *node.outputs, *results)):
                stale.update(_better_known(node))


def _declared(model: Model) -> Iterator[tuple[Edge, ValueType]]:
    """The declared types of the outputs of operators that onnx does not know. If a node calls a
    function of known operators, declared sizes of its outputs do not count, because they may
    contradict these operators.
    """
    for graph in model.graphs:
        own = graph.proto.output if isinstance(graph.proto, onnx.GraphProto) else ()
        declared = {info.name: info.type for info in (*graph.proto.value_info, *own)}
        for node in filter(operators.is_foreign, graph.nodes):
            for value in node.outputs:
                if value is not None and value.name in declared:
                    type_ = ValueType.of(declared[value.name])
                    yield value, type_ if _is_opaque(node) else _without_sizes(type_)


def _is_opaque(node: Node) -> bool:
    inner = None if node.function is None else node.function.nodes
    return operators.is_foreign(node) and (inner is None or any(map(_is_opaque, inner)))


def _without_sizes(type_: ValueType) -> ValueType:
    shape = type_.shape and tuple(None if isinstance(dim, int) else dim for dim in type_.shape)
    return replace(type_, shape=shape)


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
    """Infer a node of the graph. Return the outputs about which more is known than before, and the
    outputs whose elements may have become known.
    """
    before = [(value, value.known_type) for value in node.outputs if value is not None]
    try:
        _learn(node, _types_made(node, is_new=False))
    except Exception:  # onnx or a rule fails, for example for an attribute of a wrong type
        return ()
    return [
        value for value, type_ in before if value.known_type is not type_ or _makes_shapes(value)
    ]


def _learn(node: Node, types: Sequence[ValueType]) -> None:
    """Merge the inferred types into the types of the outputs of a node."""
    for output, type_ in zip(node.outputs, types, strict=False):
        if output is None or type_ == UNKNOWN:
            continue
        # onnx infers wrong shapes for the tensors of sequences: it assumes that a Loop never
        # changes them, and that SplitToSequence keeps the axis.
        if node.is_op("Loop", "SplitToSequence") or node.function is not None:
            type_ = replace(type_, other=shapeless(type_.other))
        learned = replace(type_, shape=_shape_learned(node, output, trusted(node, type_.shape)))
        if learned != output.known_type:
            output.known_type = learned
        if output is node.outputs[0] and _makes_shapes(output):
            output.elements = elements_made(node, output.known_type.elem_type) or output.elements


def _shape_learned(node: Node, output: Edge, inferred: Shape | None) -> Shape | None:
    """The shape with the most certain source for each dimension: onnx's inference, shape
    arithmetic, or the type that was known before.
    """
    is_arithmetic = output is node.outputs[0] and not _is_complete(inferred)
    sources = (inferred, shape_made(node) if is_arithmetic else None, output.known_type.shape)
    return _most_certain([dims for dims in sources if dims is not None], node.graph.model.types)


def _most_certain(shapes: Sequence[Sequence[Element | None]], types: Types) -> Shape | None:
    """The most certain of these shapes for each dimension. An unknown dimension gets a new
    symbol.
    """
    if not shapes:
        return None
    fitting = [shape for shape in shapes if len(shape) == len(shapes[0])]
    best = (max(dims, key=certainty) for dims in zip(*fitting, strict=True))
    return tuple(
        dim if isinstance(dim, int | str) and certainty(dim) else types.new_symbol() for dim in best
    )


def _types_made(node: Node, *, is_new: bool) -> Sequence[ValueType]:
    """The output types of a node, inferred from its inputs. If inference has no rule for the
    operator: the types that are already known.
    """
    if is_fatal(node):
        return []
    is_ruled = operators.is_foreign(node) or len(node.outputs) == 1
    ruled = runtime_types(node) if is_ruled else None
    if not ruled and not _is_unknown(node):
        return ask(node, is_new=is_new)
    types = [ValueType(elem_type, shape) for elem_type, shape in ruled or ()]
    pairs = zip_longest(types, node.outputs)
    return [new if new and new.elem_type else _known_type(old) for new, old in pairs]


def _is_unknown(node: Node) -> bool:
    """Whether onnx cannot infer a node: it has no rule for the operator, and the node does not call
    a function.
    """
    is_foreign = operators.is_foreign(node) and node.operator not in LIKE_STANDARD
    return is_foreign and node.function is None


def _known_type(output: Edge | None) -> ValueType:
    return UNKNOWN if output is None else output.known_type


def _is_slicing_scan(node: Node) -> bool:
    """Whether a node is a Scan whose subgraph gets single elements along the scan axis."""
    return node.is_op("Scan") and node.graph.opset >= _SCAN_OPSET


def _shaped_body_inputs(scan: Node, body: Graph) -> Sequence[Edge]:
    """Set the shapes of the inputs of a Scan's subgraph, and return these inputs. The scan inputs,
    which are the last inputs of the Scan, lose one axis.
    """
    count = scan.attr("num_scan_inputs")
    axes = [None] * (len(scan.inputs) - count) + scan.attr("scan_input_axes", [0] * count)
    for value, outer, axis in zip(body.inputs, scan.inputs, axes, strict=False):
        # zip ends before body inputs that have default values
        if outer is not None and (shape := outer.shape) is not None:
            dims = (dim for at, dim in enumerate(shape) if axis is None or at != axis % len(shape))
            value.known_type = replace(value.known_type, shape=tuple(dims))
    return body.inputs


def _is_settled(value: Edge) -> bool:
    """Whether nothing more can become known about a value: its shape is complete, and its elements
    do not determine shapes.
    """
    return _is_complete(value.known_type.shape) and not _makes_shapes(value)


def _inherit_type(new: Edge, old: Edge) -> None:
    if old.known_type != UNKNOWN:
        new.known_type = old.known_type


def _is_as_settled(new: Edge, old: Edge) -> bool:
    return _is_settled(new) and old.known_type.shape == new.known_type.shape


def _makes_shapes(value: Edge) -> bool:
    """Whether the shapes of other values may depend on the elements of this value: it is a small
    integer vector or scalar, or a small constant.
    """
    shape = value.known_type.shape
    if shape is None or len(shape) > 1 or any(isinstance(n, int) and n > SMALL for n in shape):
        return False
    return value.known_type.elem_type in _SHAPE_TYPES or value.is_constant


def _is_complete(shape: Shape | None, rank_only: bool = False) -> bool:
    return shape is not None and (rank_only or not any(map(is_invented, shape)))
