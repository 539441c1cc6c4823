"""Element types and shapes: onnx's own shape inference with data propagation, never a guess.

All values are inferred at once, when the first question is asked; the model goes there without its large weights.
A node that a pass makes is inferred by itself when it is made. What rewriting has made knowable since (a shape that
became constant, say) is found by one new inference per pass, when that pass meets a value with an unknown part.

What the model declares of its values (value_info, the shapes of its outputs) counts only for operators that onnx does
not know. For the others it may say more than is true: the result of a Reshape has whatever shape the caller asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import TensorProto, shape_inference

from fusionc.model import operators, tensors
from fusionc.model.build import build
from fusionc.model.graph import Constant, Edge, Graph, Model, Node, Shape, shape_of
from fusionc.shapes.elements import SAME_SHAPE, Element, shape_made
from fusionc.shapes.expressions import INVENTED, atoms, is_expression, is_invented, replaced
from fusionc.shapes.onnx_inference import infer
from fusionc.shapes.overrides import Override, is_fatal, override_of

_SMALL = 1024  # elements; larger tensors never are shapes, axes or sizes, and inference goes without them
_DOUBTFUL = "fusionc.doubtful"  # the domain of nodes whose shapes inference must not say
_OF_SHAPES = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)  # what shape arithmetic computes with
_IR_VERSION = 10  # of the copy that inference sees: initializers need not be inputs there


def typed_model(proto: onnx.ModelProto, folder: str, target: str = "onnxruntime-cpu") -> Model:
    """The model in memory, for that runtime, which infers types when it is asked for them.

    Raises FusioncError for a model that is not in single assignment form or has a cycle.
    """
    model = build(proto, folder, target)
    model.types = TypeInference(model)
    return model


class TypeInference:
    """What is known about the types of all values of a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._generation = -1  # counts inferences
        self._outdated = False  # commits since the last inference
        self._may_refresh = False  # once per pass
        self._doubts: dict[Node, Override] = {}
        self._told: dict[Edge, onnx.TypeProto] = {}  # types that inference misses

    def of(self, value: Edge, *, rank_only: bool = False) -> onnx.TypeProto | None:
        """The type of a value as far as it can be known; `rank_only` says that its dimensions do not matter."""
        if value.graph.in_function:
            return value.proto_type
        if self._generation < 0:
            self._infer()
        elif self._outdated and self._may_refresh and not _is_complete(value.proto_type, rank_only):
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
        stands_for = {new: old for old, new in replaced}
        made = [value for node in new_nodes for value in node.outputs if value is not None]
        for value in made:
            if is_foreign(value.producer):
                known = None if value not in stands_for else stands_for[value].proto_type
                value.proto_type = value.proto_type if known is None else known
                self._declare(value)
        if not self._outdated:
            is_as_before = all(_teaches_nothing(old, new) for old, new in replaced)
            self._outdated = not (is_as_before and all(map(_is_settled, made)))

    def _declare(self, value: Edge) -> None:
        if value.proto_type is None:
            return
        declared = value.graph.declared_types[value.name] = onnx.TypeProto()
        declared.CopyFrom(value.proto_type)
        for dim in declared.tensor_type.shape.dim:
            if dim.dim_param and is_invented(dim.dim_param):  # it would mean something else after the next inference
                dim.ClearField("dim_param")

    def _follow(self, skeleton: _Skeleton) -> _Symbols:
        """Find out what invented symbols stand for; what holds in a subgraph holds there only."""
        found: dict[int, _Symbols] = {}
        for graph in (graph for graph in self._model.graphs if graph.id in skeleton.nodes):
            outer = None if graph.owner is None else found.get(graph.owner.graph.id)
            symbols = found[graph.id] = _Symbols(self._doubts, outer)
            symbols.follow(skeleton.nodes[graph.id])
            symbols.apply(graph)
        return found[self._model.main.id]

    def _infer(self) -> None:
        self._generation, self._outdated = self._generation + 1, False
        main = self._model.main
        values = [v for graph in self._model.graphs for v in graph.values.values() if v.producer is not None]
        before = [(value, value.proto_type) for value in values if value.proto_type is not None]
        self._doubts = {node: doubt for node, doubt in self._doubts.items() if node.is_in_graph}
        slices = (node for graph in self._model.graphs for node in graph.of_operator("Slice"))
        self._doubts.update({node: Override(None) for node in slices if is_fatal(node)})
        self._told = {v: type_ for v, type_ in self._told.items() if v.producer and v.producer.is_in_graph}
        skeleton = _Skeleton(self._model, self._doubts, self._told)
        while True:
            try:
                result = infer(skeleton.proto)
            except Exception:  # onnx gives up on the whole model, for example for a wrong attribute: nothing is known
                return
            _read(main, result.graph, skeleton, self._generation)
            symbols = self._follow(skeleton)
            doubts = {node: doubt for node in skeleton.certain() if (doubt := override_of(node)) is not None}
            if doubts:
                self._doubts.update(doubts)
                skeleton = _Skeleton(self._model, self._doubts, self._told)
            elif not skeleton.annotate(symbols.found):
                break
        for value, type_ in before if self._generation else ():
            if not _has_shape(value.proto_type):  # what was known stays true where this inference knows less
                value.proto_type = type_


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
        if value.is_constant and _count(type_) <= _SMALL:
            array = value.constant()
            if array is not None:
                data[name] = tensors.to_proto(array, name)
    if any(name and name not in types for name in node.proto.input):
        return
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in graph.opsets.items()]
    found = shape_inference.infer_node_outputs(
        schema, node.proto, types, data, opset_imports=opsets, ir_version=_IR_VERSION
    )
    for name, output in zip(node.proto.output, node.outputs, strict=True):
        if output is not None and name in found:
            output.proto_type = found[name]
    doubt, first = override_of(node), node.outputs[0] if node.outputs else None
    if doubt is not None and first is not None:
        first.proto_type = _type_in(doubt, first)


def _infer_foreign(node: Node) -> None:
    """The type of what one of the target's own operators makes, as far as it follows from its first input."""
    output, x = node.outputs[0], node.inputs[0] if node.inputs else None
    made = None if output is None or output.proto_type is not None else shape_made(node)
    if output is None or x is None or made is None or not x.elem_type:
        return
    output.proto_type = onnx.helper.make_tensor_type_proto(x.elem_type, [_better(None, dim) for dim in made])


def is_foreign(node: Node | None) -> bool:
    """Whether onnx does not know the operator."""
    return node is not None and operators.schema(node.op, node.domain, node.graph.opset_of(node.domain)) is None


class _Skeleton:
    """A copy of the model for inference: without large weights, and without what the model itself declares of
    values that onnx can infer."""

    def __init__(self, model: Model, doubts: Mapping[Node, Override], told: dict[Edge, onnx.TypeProto]) -> None:
        """The types in `told` are told to inference from the start, and `annotate` adds to them."""
        self._doubts, self._told = doubts, told
        self.proto = onnx.ModelProto(ir_version=_IR_VERSION)
        # A domain that the model forgot to import would make inference give up on everything.
        domains = {node.domain: 1 for graph in model.graphs for node in graph.nodes}
        for domain, version in (domains | model.opsets | model.imports_added).items():
            self.proto.opset_import.add(domain=domain, version=version)
        self.proto.opset_import.add(domain=_DOUBTFUL, version=1)
        self.proto.functions.extend(model.proto.functions)
        self.nodes: dict[int, list[Node]] = {}  # by graph id, in the order of the copy
        self._named = 0  # dimensions that got a symbol here
        self._copy(model.main, self.proto.graph)
        self._tell({value: type_ for value, type_ in told.items() if value.producer not in doubts})

    def _copy(self, graph: Graph, copy: onnx.GraphProto) -> None:
        copy.name = graph.proto.name or "graph"
        for value in graph.inputs:
            type_ = copy.input.add(name=value.name).type
            type_.CopyFrom(_declared(value))
            # What a Loop carries may change its shape from one iteration to the next.
            if graph.owner is not None and type_.HasField("tensor_type"):
                type_.tensor_type.ClearField("shape")
        copy.initializer.extend(map(_small_or_empty, graph.constants()))
        nodes = self.nodes[graph.id] = graph.ordered()
        outer: dict[Edge, None] = {}
        for node in nodes:
            self._copy_node(node, copy)
            outer.update({v: None for v in node.inputs if v is not None and v.graph is not graph and v.is_constant})
        for constant in outer:  # onnx gives a subgraph the types of outer values, not the elements of constants
            if _count(constant.proto_type) <= _SMALL:
                copy.initializer.append(_small_or_empty(constant))
        for value in graph.outputs:
            copy.output.add(name=value.name)

    def _copy_node(self, node: Node, copy: onnx.GraphProto) -> None:
        if node.is_op("Constant") and node.proto.ByteSize() > 8 * _SMALL and node.proto.attribute[0].HasField("t"):
            tensor, (output,) = node.proto.attribute[0].t, node.outputs
            copy.initializer.add(name=output.name if output else "", dims=tensor.dims, data_type=tensor.data_type)
            return
        if (doubt := self._doubts.get(node)) is not None and (output := node.outputs[0]) is not None:
            copy.node.add(op_type=node.op, domain=_DOUBTFUL, output=[output.name])
            certain = _type_in(doubt, output)
            if certain.tensor_type.elem_type:
                copy.value_info.add(name=output.name).type.CopyFrom(certain)
            return
        if node.domain == operators.MICROSOFT and node.op in SAME_SHAPE and node.inputs[0] is not None:
            for output in [o for at, o in enumerate(node.outputs) if at in (0, 3) and o is not None]:
                copy.node.add(op_type="Identity", input=[node.inputs[0].name], output=[output.name])
            return
        new = copy.node.add(op_type=node.op, domain=node.domain, overload=node.proto.overload)
        new.input.extend("" if v is None else v.name for v in node.inputs)
        new.output.extend("" if v is None else v.name for v in node.outputs)
        bodies = iter(node.bodies)
        for attribute in node.proto.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                self._copy(next(bodies), new.attribute.add(name=attribute.name, type=attribute.type).g)
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                list_attribute = new.attribute.add(name=attribute.name, type=attribute.type)
                for _ in attribute.graphs:
                    self._copy(next(bodies), list_attribute.graphs.add())
            else:
                new.attribute.append(attribute)
        if is_foreign(node):
            for output in node.outputs:
                declared = None if output is None else node.graph.declared_types.get(output.name)
                if output is not None and declared is not None:
                    info = copy.value_info.add(name=output.name)
                    info.type.CopyFrom(declared)
                    for dim in info.type.tensor_type.shape.dim:
                        if not dim.WhichOneof("value"):
                            self._named += 1
                            dim.dim_param = f"{INVENTED}m{self._named}"

    def certain(self) -> Iterator[Node]:
        """The nodes that are copied as they are."""
        return (node for nodes in self.nodes.values() for node in nodes if node not in self._doubts)

    def annotate(self, found: Mapping[Edge, onnx.TypeProto]) -> bool:
        """Tell inference the types that it missed; whether there are any."""
        more = {value: type_ for value, type_ in found.items() if value not in self._told}
        self._told.update(more)
        self._tell(more)
        return bool(more)

    def _tell(self, types: Mapping[Edge, onnx.TypeProto]) -> None:
        for value, type_ in types.items():
            self.proto.graph.value_info.add(name=value.name).type.CopyFrom(type_)


class _Symbols:
    """What the symbols that inference invented stand for, as far as it follows from other dimensions."""

    def __init__(self, doubts: Mapping[Node, Override], outer: _Symbols | None) -> None:
        self._doubts = doubts
        self._meanings: dict[str, Element] = {} if outer is None else dict(outer._meanings)
        self.found: dict[Edge, onnx.TypeProto] = {}  # types that are new to inference

    def follow(self, nodes: Iterable[Node]) -> None:
        """Look at the nodes of a graph in order."""
        for node in nodes:
            for value in node.outputs:
                self._write(value)
            output = node.outputs[0] if node.outputs else None
            if output is None or node in self._doubts:
                continue
            shape = shape_of(output.proto_type)
            made = shape_made(node) if shape is None or any(map(is_invented, shape)) else None
            if made is not None and (shape is None or len(shape) == len(made)):
                self._learn(output, (None,) * len(made) if shape is None else shape, made)

    def _learn(self, output: Edge, shape: Shape, made: Sequence[Element | None]) -> None:
        elem_type = 0 if output.proto_type is None else output.proto_type.tensor_type.elem_type
        if not elem_type:
            return
        dims = [_better(was, dim) for was, dim in zip(shape, made, strict=True)]
        if tuple(dims) == shape:
            return
        for was, dim in zip(shape, dims, strict=True):
            if was is not None and dim is not None and was != dim:
                self._meanings[str(was)] = dim
        output.proto_type = onnx.helper.make_tensor_type_proto(elem_type, dims)
        certain = [None if is_invented(dim) else dim for dim in dims]
        if any(dim is not None and was != dim for was, dim in zip(shape, certain, strict=True)):
            self.found[output] = onnx.helper.make_tensor_type_proto(elem_type, certain)

    def apply(self, graph: Graph) -> None:
        """Put what was found into the types of all values of a graph."""
        for value in graph.values.values() if self._meanings else ():
            if value.producer is not None:
                self._write(value)

    def _write(self, value: Edge | None) -> None:
        type_ = None if value is None else value.proto_type
        if value is None or type_ is None or not self._meanings:
            return
        symbols = (dim.dim_param for dim in type_.tensor_type.shape.dim)
        if not any(symbol in self._meanings or is_expression(symbol) for symbol in symbols):
            return
        shape = shape_of(type_) or ()
        dims = [None if dim is None else self._meaning(dim) for dim in shape]
        if tuple(dims) != shape:
            value.proto_type = onnx.helper.make_tensor_type_proto(type_.tensor_type.elem_type, dims)

    def _meaning(self, dim: int | str) -> int | str:
        while (meaning := replaced(dim, self._meanings)) != dim and not isinstance(meaning, tuple):
            dim = meaning
        return dim


def _better(was: int | str | None, made: Element | None) -> int | str | None:
    """The one of two names of a dimension that says more."""
    if made is None or not is_invented(was) or any(isinstance(a, tuple) or a == was for a in atoms(made)):
        return was
    return made if isinstance(made, str) or (isinstance(made, int) and made >= 0) else was


def _type_in(doubt: Override, output: Edge) -> onnx.TypeProto:
    """The type of the output with the shape that is not in doubt."""
    elem_type = 0 if output.proto_type is None else output.proto_type.tensor_type.elem_type
    dims = None if doubt.shape is None else [None if is_invented(d) else d for d in doubt.shape]
    return onnx.helper.make_tensor_type_proto(elem_type, dims)


def _teaches_nothing(old: Edge, new: Edge) -> bool:
    """Whether inference finds the same behind `new` as it did behind `old`."""
    return _is_settled(new) and shape_of(old.proto_type) == shape_of(new.proto_type)


def _is_settled(value: Edge) -> bool:
    """Whether inference cannot say more of a value: its shape is known, and no shape is made of its elements."""
    shape = shape_of(value.proto_type)
    if value.proto_type is None or shape is None or any(is_invented(d) for d in shape):
        return False
    return len(shape) > 1 or value.proto_type.tensor_type.elem_type not in _OF_SHAPES


def _read(graph: Graph, result: onnx.GraphProto, skeleton: _Skeleton, generation: int) -> None:
    """Take over what inference found for `graph` and the subgraphs of its nodes."""
    inferred = {info.name: info.type for info in result.value_info}
    # An output without a declaration gets an empty type where onnx does not know the operator.
    inferred.update({info.name: info.type for info in result.output if info.type.WhichOneof("value") is not None})
    for value in graph.values.values():
        if value.producer is not None:
            found = inferred.get(value.name)
            if found is None and value.is_constant:  # one that inference goes without
                tensor = value.producer.proto.attribute[0].t
                found = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            value.proto_type = found if found is None or generation == 0 else _stamp(found, generation)
    copies = {tuple(copy.output): copy for copy in result.node}
    for node in skeleton.nodes[graph.id]:
        if not node.bodies:
            continue
        copy = copies[tuple("" if o is None else o.name for o in node.outputs)]
        graphs = [g for a in copy.attribute for g in ([a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs)]
        for body, body_result in zip(node.bodies, graphs, strict=True):
            for value, info in zip(body.inputs, body_result.input, strict=False):
                if info.HasField("type"):
                    value.proto_type = info.type
            _read(body, body_result, skeleton, generation)


def _stamp(type_: onnx.TypeProto, generation: int) -> onnx.TypeProto:
    """Rename the symbols that inference invented: those of one run say nothing about those of another."""
    for dim in type_.tensor_type.shape.dim:
        if dim.dim_param.startswith(INVENTED):
            dim.dim_param = f"{INVENTED}{generation}__{dim.dim_param.removeprefix(INVENTED)}"
    return type_


def _small_or_empty(constant: Edge) -> TensorProto:
    """A constant for inference, which needs the elements of small ones only."""
    type_ = constant.proto_type
    if type_ is not None and _count(type_) > _SMALL:
        dims = [dim.dim_value for dim in type_.tensor_type.shape.dim]
        return TensorProto(name=constant.name, dims=dims, data_type=type_.tensor_type.elem_type)
    if isinstance(constant, Constant) and isinstance(constant.data, TensorProto) and not constant.data.data_location:
        return constant.data
    array = constant.constant()
    assert array is not None
    return tensors.to_proto(array, constant.name)


def _declared(value: Edge) -> onnx.TypeProto:
    return value.proto_type if value.proto_type is not None else onnx.TypeProto()


def _has_shape(type_: onnx.TypeProto | None) -> bool:
    return type_ is not None and type_.HasField("tensor_type") and type_.tensor_type.HasField("shape")


def _is_complete(type_: onnx.TypeProto | None, rank_only: bool) -> bool:
    if type_ is None or not _has_shape(type_):
        return False
    dims = type_.tensor_type.shape.dim
    return rank_only or not any(d.WhichOneof("value") is None or d.dim_param.startswith(INVENTED) for d in dims)


def _count(type_: onnx.TypeProto | None) -> int:
    """How many elements a tensor has, as far as its dimensions are known."""
    if type_ is None:
        return _SMALL + 1
    count = 1
    for dim in type_.tensor_type.shape.dim:
        count *= dim.dim_value
    return count
