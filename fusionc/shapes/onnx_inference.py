"""onnx's own shape inference: of a model as it is, and of a copy that goes there in place of the graph in memory."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

import onnx
from onnx import TensorProto, shape_inference

from fusionc.model import operators, tensors
from fusionc.model.graph import Constant, Edge, Graph, Model, Node
from fusionc.model.walk import bodies_of, graphs_of
from fusionc.shapes.elements import SAME_SHAPE
from fusionc.shapes.expressions import INVENTED

IR_VERSION = 10  # of what inference sees: initializers need not be inputs there
_SMALL = 1024  # elements; larger tensors never are shapes, axes or sizes, and inference goes without them
_LONG = 1 << 20  # elements
_OPAQUE = "fusionc.opaque"  # the domain of nodes whose shapes inference must not say


def infer(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types and shapes that follow from what it computes, shapes that are computed included.

    For these onnx makes a list of the elements of every vector, whatever it holds and whether or not they are known:
    millions of them take seconds and gigabytes, more of them the end of the process. So a model with vectors as long
    as that goes without. Raises what onnx raises where it gives up on the model.
    """
    shapes = shape_inference.infer_shapes(model)
    if any(length > _LONG for length in _lengths(shapes.graph)):
        return shapes
    return shape_inference.infer_shapes(model, data_prop=True)


def _lengths(graph: onnx.GraphProto) -> Iterator[int]:
    """The lengths of all vectors."""
    shapes = (value.type.tensor_type.shape.dim for value in (*graph.input, *graph.value_info, *graph.output))
    yield from (dims[0].dim_value for dims in shapes if len(dims) == 1)
    yield from (tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 1)
    for node in graph.node:
        for body in bodies_of(node):
            yield from _lengths(body)


class CopyForInference:
    """A copy of a model: without large weights, without what the model itself declares of values, without the nodes in
    `hidden`, of which onnx would say something wrong. The types in `told` stand for what it does not find out.

    All values have names of their own in it, which subgraphs of the model may share.
    """

    def __init__(self, model: Model, hidden: Container[Node], told: Mapping[Edge, onnx.TypeProto]) -> None:
        self._hidden = hidden
        self._proto = onnx.ModelProto(ir_version=IR_VERSION)
        # A domain that the model forgot to import would make inference give up on everything.
        domains = {node.domain: 1 for graph in model.graphs for node in graph.nodes}
        for domain, version in (domains | model.opsets | model.imports_added | {_OPAQUE: 1}).items():
            self._proto.opset_import.add(domain=domain, version=version)
        self._proto.functions.extend(model.proto.functions)
        self.graphs: dict[Graph, onnx.GraphProto] = {}  # the main graph and those in its nodes, in order
        self._symbols = 0  # given to dimensions
        self._copy(model.main, self._proto.graph)
        for value, type_ in told.items():
            self.tell(value, type_)

    def tell(self, value: Edge, type_: onnx.TypeProto) -> None:
        """Tell inference a type that it misses."""
        if value.graph not in self.graphs:
            return
        told = self.graphs[value.graph].value_info.add(name=_name(value)).type
        told.CopyFrom(type_)
        for dim in told.tensor_type.shape.dim if operators.is_foreign(value.producer) else ():
            if not dim.WhichOneof("value"):
                self._symbols += 1
                dim.dim_param = f"{INVENTED}m{self._symbols}"

    def infer(self) -> dict[str, onnx.TypeProto]:
        """What inference finds, by the names that values have in the copy. Raises what onnx raises."""
        found: dict[str, onnx.TypeProto] = {}
        pending = [infer(self._proto).graph]
        while pending:
            graph = pending.pop()
            # An output without a declaration gets an empty type where onnx does not know the operator.
            infos = (info for info in (*graph.input, *graph.value_info, *graph.output) if info.type.WhichOneof("value"))
            found.update((info.name, info.type) for info in infos)
            pending += [body for node in graph.node for body in bodies_of(node)]
        return found

    def _copy(self, graph: Graph, copy: onnx.GraphProto) -> None:
        self.graphs[graph] = copy
        copy.name = "graph"
        for value in graph.inputs:
            type_ = copy.input.add(name=_name(value)).type
            type_.CopyFrom(value.proto_type or onnx.TypeProto())
            for dim in [dim for dim in type_.tensor_type.shape.dim if dim.dim_value < 0]:
                dim.Clear()  # it is an unknown one, of which onnx's inference of a Slice ends the process
            # What a Loop carries may change its shape from one iteration to the next.
            if graph.owner is not None and type_.HasField("tensor_type"):
                type_.tensor_type.ClearField("shape")
        outer: dict[Edge, None] = {}
        for constant in graph.constants():
            _copy_constant(constant, copy)
        for node in graph.ordered():
            self._copy_node(node, copy)
            outer.update({v: None for v in node.inputs if v is not None and v.graph is not graph and v.is_constant})
        for value in outer:  # onnx gives a subgraph the types of outer values, not the elements of constants
            if is_small(value.proto_type):
                _copy_constant(value, copy)
        for value in graph.outputs:
            copy.output.add(name=_name(value))

    def _copy_node(self, node: Node, copy: onnx.GraphProto) -> None:
        inputs, outputs = ([_name(v) for v in values] for values in (node.inputs, node.outputs))
        if node.is_op("Constant") and node.proto.ByteSize() > 8 * _SMALL and node.proto.attribute[0].HasField("t"):
            tensor = node.proto.attribute[0].t
            copy.initializer.add(name=outputs[0], dims=tensor.dims, data_type=tensor.data_type)
        elif node in self._hidden:
            copy.node.add(op_type=node.op, domain=_OPAQUE, output=outputs[:1])
        elif node.domain == operators.MICROSOFT and node.op in SAME_SHAPE and node.inputs[0] is not None:
            for output in filter(None, (outputs[0], *outputs[3:4])):
                copy.node.add(op_type="Identity", input=inputs[:1], output=[output])
        else:
            new = copy.node.add(op_type=node.op, domain=node.domain, overload=node.proto.overload)
            new.input.extend(inputs)
            new.output.extend(outputs)
            bodies = iter(node.bodies)
            for attribute in node.proto.attribute:
                if graphs := graphs_of(attribute):
                    held = new.attribute.add(name=attribute.name, type=attribute.type)
                    places = [held.g] if attribute.HasField("g") else [held.graphs.add() for _ in graphs]
                    for place in places:
                        self._copy(next(bodies), place)
                else:
                    new.attribute.append(attribute)


def _name(value: Edge | None) -> str:
    return "" if value is None else f"{value.graph.id}:{value.name}"


def type_in(found: Mapping[str, onnx.TypeProto], value: Edge) -> onnx.TypeProto | None:
    """The type of a value in what inference found."""
    type_ = found.get(_name(value))
    if type_ is None and value.producer is not None and value.is_constant:  # one that inference goes without
        tensor = value.producer.proto.attribute[0].t
        return onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return type_


def _copy_constant(constant: Edge, graph: onnx.GraphProto) -> None:
    """A constant for inference, which needs the elements of small ones only."""
    copy, type_ = graph.initializer.add(), constant.proto_type
    if type_ is not None and not is_small(type_):
        copy.data_type = type_.tensor_type.elem_type
        copy.dims.extend(dim.dim_value for dim in type_.tensor_type.shape.dim)
    elif isinstance(constant, Constant) and isinstance(constant.data, TensorProto) and not constant.data.data_location:
        copy.CopyFrom(constant.data)
    else:
        array = constant.constant()
        assert array is not None
        copy.CopyFrom(tensors.to_proto(array, ""))
    copy.name = _name(constant)


def is_small(type_: onnx.TypeProto | None) -> bool:
    """Whether a tensor has so few elements that they may be a shape, axes or sizes."""
    count = 1
    for dim in type_.tensor_type.shape.dim if type_ is not None else ():
        count *= dim.dim_value
    return type_ is not None and count <= _SMALL
