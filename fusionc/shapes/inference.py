"""The types of all values of a model: when they are inferred, and what is kept from one inference to the next.

How the parts of this room work together is told in `fusionc/shapes/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import TensorProto, shape_inference

from fusionc.model import operators, tensors
from fusionc.model.build import build
from fusionc.model.graph import Edge, Graph, Model, Node
from fusionc.model.tensors import shape_of
from fusionc.shapes.elements import shape_made
from fusionc.shapes.expressions import INVENTED, Element, atoms, is_expression, is_invented, replaced
from fusionc.shapes.onnx_inference import IR_VERSION, CopyForInference, is_small, type_in
from fusionc.shapes.overrides import is_fatal, override_of

_OF_SHAPES = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)  # what shape arithmetic computes with


def typed_model(proto: onnx.ModelProto, folder: str, target: str = "onnxruntime-cpu") -> Model:
    """The model in memory, for that runtime, which infers types when it is asked for them.

    Raises FusioncError for a model that is not in single assignment form or has a cycle.
    """
    model = build(proto, folder, target)
    model.types = TypeInference(model)
    return model


class TypeInference:
    """What is known about the types of all values of a model: `proto_type` of each, and when that is found out."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._runs = 0  # of inference
        self._outdated = False  # commits since the last inference
        self._may_refresh = False  # once per pass
        self._hidden: set[Node] = set()  # of which inference would say something wrong
        self._told = dict(_declared(model))  # types that inference does not find out

    def of(self, value: Edge, *, rank_only: bool = False) -> onnx.TypeProto | None:
        """The type of a value as far as it can be known; `rank_only` says that its dimensions do not matter."""
        if value.graph.in_function:
            return value.proto_type
        if not self._runs:
            self._infer()
        elif self._outdated and self._may_refresh and not _is_known(value.proto_type, rank_only):
            self._may_refresh = False
            self._infer()
        return value.proto_type

    def begin_pass(self) -> None:
        """A pass starts: it may have the types refreshed once."""
        self._may_refresh = True

    def note_commit(self, replaced: Sequence[tuple[Edge, Edge]], new_nodes: Sequence[Node]) -> None:
        """The graph has changed. A new inference may know more, unless the new values are as well known as the old.

        What was known of a value is kept for the one that stands for it where onnx does not know the new operator.
        """
        stands_for = {new: old.proto_type for old, new in replaced}
        made = [value for node in new_nodes for value in node.outputs if value is not None]
        for value in made:
            if operators.is_foreign(value.producer):
                value.proto_type = stands_for.get(value) or value.proto_type
                if value.proto_type is not None:
                    self._told[value] = _lasting(value.proto_type)
        if not self._outdated:
            as_before = (_is_settled(n) and shape_of(o.proto_type) == shape_of(n.proto_type) for o, n in replaced)
            self._outdated = not (all(as_before) and all(map(_is_settled, made)))

    def _infer(self) -> None:
        graphs, is_first = self._model.graphs, not self._runs
        self._runs, self._outdated = self._runs + 1, False
        before = [] if is_first else [(v, v.proto_type) for g in graphs for v in g.values.values() if v.proto_type]
        self._told = {v: type_ for v, type_ in self._told.items() if v.producer and v.producer.is_in_graph}
        self._hidden = {node for node in self._hidden if node.is_in_graph}
        for node in [node for graph in graphs for node in graph.of_operator("Slice") if is_fatal(node)]:
            self._hide(node, onnx.TypeProto())
        copy = CopyForInference(self._model, self._hidden, self._told)
        while True:
            try:
                found = copy.infer()
            except Exception:  # onnx gives up on the whole model, for example for a wrong attribute: nothing is known
                return
            for graph in copy.graphs:
                self._read(found, graph)
            missed = {v: type_ for v, type_ in self._follow(copy.graphs).items() if v not in self._told}
            trusted = (node for graph in copy.graphs for node in graph.nodes if node not in self._hidden)
            overrides = [(node, certain) for node in trusted if (certain := override_of(node)) is not None]
            for node, certain in overrides:
                self._hide(node, certain)
            if overrides:
                copy = CopyForInference(self._model, self._hidden, self._told)
            elif missed:
                self._told |= missed
                for value, type_ in missed.items():
                    copy.tell(value, type_)
            else:
                break
        for value, type_ in before:
            if value.producer is not None and shape_of(value.proto_type) is None:  # what was known stays true
                value.proto_type = type_

    def _hide(self, node: Node, certain: onnx.TypeProto) -> None:
        """Let inference say no more of the first output of a node than what is certain."""
        self._hidden.add(node)
        if node.outputs[0] is not None:
            self._told.pop(node.outputs[0], None)
            if certain.tensor_type.elem_type:
                self._told[node.outputs[0]] = certain

    def _read(self, found: Mapping[str, onnx.TypeProto], graph: Graph) -> None:
        """Take over what was found of the values of a graph."""
        for value in graph.values.values():
            type_ = type_in(found, value)
            for dim in () if type_ is None or self._runs == 1 else type_.tensor_type.shape.dim:
                if dim.dim_param.startswith(INVENTED):  # symbols of one run say nothing about those of another
                    dim.dim_param = f"{INVENTED}{self._runs}__{dim.dim_param.removeprefix(INVENTED)}"
            if value.producer is not None or (type_ is not None and graph.owner is not None):
                value.proto_type = type_

    def _follow(self, graphs: Iterable[Graph]) -> Mapping[Edge, onnx.TypeProto]:
        """Find out what invented symbols stand for; what holds in a subgraph holds there only. Returns the types of the
        main graph that inference misses."""
        symbols: dict[Graph, _Symbols] = {}
        for graph in graphs:
            outer = None if graph.owner is None else symbols[graph.owner.graph]
            symbols[graph] = _Symbols(outer)
            symbols[graph].follow(graph, self._hidden)
        return symbols[self._model.main].missed


def _declared(model: Model) -> Iterator[tuple[Edge, onnx.TypeProto]]:
    """What the model itself says of the values whose operators onnx does not know."""
    for graph in model.graphs:
        outputs = [v for node in graph.nodes if operators.is_foreign(node) for v in node.outputs if v is not None]
        if outputs:
            own = graph.proto.output if isinstance(graph.proto, onnx.GraphProto) else ()
            types = {info.name: info.type for info in (*graph.proto.value_info, *own) if info.HasField("type")}
            yield from ((value, types[value.name]) for value in outputs if value.name in types)


def _lasting(type_: onnx.TypeProto) -> onnx.TypeProto:
    """A type without symbols that mean something else after the next inference."""
    lasting = onnx.TypeProto()
    lasting.CopyFrom(type_)
    for dim in lasting.tensor_type.shape.dim:
        if dim.dim_param and is_invented(dim.dim_param):
            dim.ClearField("dim_param")
    return lasting


def _is_known(type_: onnx.TypeProto | None, rank_only: bool = False) -> bool:
    shape = shape_of(type_)
    return shape is not None and (rank_only or not any(map(is_invented, shape)))


def _is_settled(value: Edge) -> bool:
    """Whether inference cannot say more of a value: its shape is known, and no shape is made of its elements."""
    type_ = value.proto_type
    if type_ is None or not _is_known(type_):
        return False
    return len(type_.tensor_type.shape.dim) > 1 or type_.tensor_type.elem_type not in _OF_SHAPES


def infer_node(node: Node) -> None:
    """Give the outputs of a node that is not in the graph yet their types, as far as its inputs allow.

    Raises onnx.shape_inference.InferenceError where the operator cannot take these inputs.
    """
    graph = node.graph
    schema = operators.schema(node.op, node.domain, graph.opset_of(node.domain))
    if schema is None:
        _infer_foreign(node)
    if schema is None or is_fatal(node):
        return
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for name, value in zip(node.proto.input, node.inputs, strict=True):
        type_ = None if value is None else graph.model.types.of(value)
        if value is None or type_ is None:
            continue
        types[name] = type_
        array = value.constant() if value.is_constant and is_small(type_) else None
        if array is not None:
            data[name] = tensors.to_proto(array, name)
    if any(name and name not in types for name in node.proto.input):
        return
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in graph.opsets.items()]
    found = shape_inference.infer_node_outputs(
        schema, node.proto, types, data, opset_imports=opsets, ir_version=IR_VERSION
    )
    for name, output in zip(node.proto.output, node.outputs, strict=True):
        if output is not None and name in found:
            output.proto_type = found[name]
    certain = override_of(node)
    if certain is not None and node.outputs[0] is not None:
        node.outputs[0].proto_type = certain


def _infer_foreign(node: Node) -> None:
    """The type of what one of the target's own operators makes, as far as it follows from its first input."""
    output, x = node.outputs[0], node.inputs[0] if node.inputs else None
    made = None if output is None or output.proto_type is not None else shape_made(node)
    if output is None or x is None or made is None or not x.elem_type:
        return
    output.proto_type = onnx.helper.make_tensor_type_proto(x.elem_type, [_better_name(None, dim) for dim in made])


class _Symbols:
    """The meanings of invented symbols in one graph, as far as they follow from other dimensions."""

    def __init__(self, outer: _Symbols | None) -> None:
        """`outer` are those of the graph around it."""
        self._meanings: dict[str, Element] = {} if outer is None else dict(outer._meanings)
        self.missed: dict[Edge, onnx.TypeProto] = {}  # types that are new to inference

    def follow(self, graph: Graph, hidden: Container[Node]) -> None:
        """Learn from all nodes in order but those in `hidden`, and put what is found into the types of all values."""
        for node in graph.ordered():
            outputs = [value for value in node.outputs if value is not None]
            for output in outputs:
                self._write(output)
            if outputs and outputs[0] is node.outputs[0] and node not in hidden:
                self._learn(node, outputs[0])
        for value in graph.values.values() if self._meanings else ():
            if value.producer is not None:
                self._write(value)

    def _learn(self, node: Node, output: Edge) -> None:
        shape = shape_of(output.proto_type)
        elem_type = 0 if output.proto_type is None else output.proto_type.tensor_type.elem_type
        made = shape_made(node) if shape is None or any(map(is_invented, shape)) else None
        if made is None or not elem_type or (shape is not None and len(shape) != len(made)):
            return
        known = shape or (None,) * len(made)
        dims = [_better_name(was, dim) for was, dim in zip(known, made, strict=True)]
        if tuple(dims) == known:
            return
        pairs = list(zip(known, dims, strict=True))
        self._meanings.update((str(was), dim) for was, dim in pairs if was is not None and dim not in (None, was))
        output.proto_type = onnx.helper.make_tensor_type_proto(elem_type, dims)
        if any(was != dim and not is_invented(dim) for was, dim in pairs):
            certain = [None if is_invented(dim) else dim for dim in dims]
            self.missed[output] = onnx.helper.make_tensor_type_proto(elem_type, certain)

    def _write(self, value: Edge) -> None:
        type_ = value.proto_type
        if type_ is None or not self._meanings:
            return
        symbols = (dim.dim_param for dim in type_.tensor_type.shape.dim)
        if any(symbol in self._meanings or is_expression(symbol) for symbol in symbols):
            dims = [None if dim is None else self._meaning(dim) for dim in shape_of(type_) or ()]
            value.proto_type = onnx.helper.make_tensor_type_proto(type_.tensor_type.elem_type, dims)

    def _meaning(self, dim: int | str) -> int | str:
        while (meaning := replaced(dim, self._meanings)) != dim and not isinstance(meaning, tuple):
            dim = meaning
        return dim


def _better_name(was: int | str | None, made: Element | None) -> int | str | None:
    """The one of two names of a dimension that says more."""
    if made is None or not is_invented(was) or any(isinstance(a, tuple) or a == was for a in atoms(made)):
        return was
    return made if isinstance(made, str) or (isinstance(made, int) and made >= 0) else was
