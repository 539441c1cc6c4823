"""The graph in memory: onnx-graphsurgeon's nodes and tensors, with identity, exact uses and the original protos.

Reading follows the onnx-graphsurgeon API (`node.op`, `node.inputs`, `node.attrs`, `tensor.inputs`, `node.o()`,
`isinstance(t, gs.Constant)`), so that whoever knows it can write a pass; `fusionc/graphsurgeon.py` has the table of
what works, and what is said of the rest. Three things differ on purpose: equality
is identity, inputs and outputs are read-only tuples (an omitted optional input is None), and a node keeps its
NodeProto, so that what no pass rewrites is written back untouched. Only `model/build.py` and `rewrite/splice.py`
change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from fusionc.graphsurgeon import NodesOfGraph, ReadOnly, ReadOnlyDict, ReadOnlyTuple, missing
from fusionc.model import operators, tensors
from fusionc.model.walk import fresh_name

Shape = tuple["int | str | None", ...]
GROWTH_KEY = "fusionc.folding_growth"
_END = 64  # elements
_CACHE_BYTES = 64 * 1024  # arrays up to this size are kept after the first reading


class Types(Protocol):
    """What tells the types of a model's values: `shapes.inference`."""

    def of(self, value: Edge, *, rank_only: bool = False) -> onnx.TypeProto | None:
        """The type of a value as far as it can be known; `rank_only` says that its dimensions do not matter."""

    def begin_pass(self) -> None:
        """A pass starts: it may have the types refreshed once."""

    def note_commit(self, replaced: Sequence[tuple[Edge, Edge]], new_nodes: Sequence[Node]) -> None:
        """The graph has changed."""


class Edge(ReadOnly):
    """What variables and constants have in common: who makes them and who uses them."""

    name: str
    graph: Graph
    producer: Node | None
    output_of: list[Graph]
    proto_type: onnx.TypeProto | None

    def __init__(self, name: str, graph: Graph) -> None:
        self.name = name
        self.graph = graph
        self.producer = None
        self.output_of = []  # the graphs that hand this value out: its own, or a subgraph of a node beside it
        self.is_pinned = False  # a quantization annotation or training information names it
        self.proto_type = None  # as declared in the model, or inferred
        self._read_type: onnx.TypeProto | None = None  # the one from which the shape was read last
        self._read_shape: Shape | None = None
        self._uses: dict[Node, int] = {}

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The node that makes this value (none for graph inputs and initializers)."""
        return ReadOnlyTuple(() if self.producer is None else (self.producer,))

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The nodes that use this value, those in subgraphs included, each once."""
        return ReadOnlyTuple(self._uses)

    @property
    def is_output(self) -> bool:
        return bool(self.output_of)

    @property
    def is_used(self) -> bool:
        return bool(self._uses) or self.is_output or self.is_pinned

    @property
    def use_count(self) -> int:
        """How many nodes use this value; the graph's outputs are not counted."""
        return len(self._uses)

    @property
    def elem_type(self) -> int:
        """The TensorProto.DataType of the elements; 0 where it is unknown or the value is no tensor."""
        type_ = self.graph.model.types.of(self, rank_only=True)
        return type_.tensor_type.elem_type if type_ is not None and type_.HasField("tensor_type") else 0

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The numpy type of the elements (ml_dtypes for those that numpy has not), or None."""
        return tensors.numpy_type(self.elem_type)

    @property
    def shape(self) -> Shape | None:
        """An int, a symbol or None for each dimension; None where the rank is unknown."""
        return self._shape_in(self.graph.model.types.of(self))

    @property
    def rank(self) -> int | None:
        shape = self._shape_in(self.graph.model.types.of(self, rank_only=True))
        return None if shape is None else len(shape)

    def _shape_in(self, type_: onnx.TypeProto | None) -> Shape | None:
        if self._read_type is not type_:
            self._read_type, self._read_shape = type_, shape_of(type_)
        return self._read_shape

    def constant(self) -> np.ndarray[Any, Any] | None:
        """The elements if they are known before the model runs, else None. They are read when asked for."""
        raise NotImplementedError

    @property
    def is_constant(self) -> bool:
        raise NotImplementedError


@missing("Variable")
class Value(Edge, gs.Variable):
    """What a node makes, or a graph input. The output of a Constant node is a constant as well."""

    @property
    def is_constant(self) -> bool:
        maker = self.producer
        return maker is not None and maker.is_op("Constant") and tensors.is_readable(maker.proto)

    def constant(self) -> np.ndarray[Any, Any] | None:
        producer = self.producer
        if producer is None or not self.is_constant:
            return None
        if producer.cached_constant is None:
            array = tensors.constant_node_array(producer.proto, producer.graph.model.folder)
            if array.nbytes > _CACHE_BYTES:
                return array
            producer.cached_constant = array
        return producer.cached_constant

    def __repr__(self) -> str:
        return f"Value({self.name})"


@missing("Constant")
class Constant(Edge, gs.Constant):
    """An initializer whose value the caller cannot override, or a constant that a pass made."""

    def __init__(self, name: str, graph: Graph, data: onnx.TensorProto | np.ndarray[Any, Any]) -> None:
        super().__init__(name, graph)
        self.data = data
        if isinstance(data, onnx.TensorProto):
            self.proto_type = onnx.helper.make_tensor_type_proto(data.data_type, list(data.dims))
            self._cached: np.ndarray[Any, Any] | None = None
        else:
            self.proto_type = onnx.helper.make_tensor_type_proto(tensors.element_type(data.dtype), data.shape)
            self._cached = data

    is_constant = True

    @property
    def nbytes(self) -> int:
        return tensors.byte_size(self.data) if isinstance(self.data, onnx.TensorProto) else self.data.nbytes

    @property
    def values(self) -> np.ndarray[Any, Any]:
        if self._cached is not None:
            return self._cached
        assert isinstance(self.data, onnx.TensorProto)
        array = tensors.to_array(self.data, self.graph.model.folder)
        if array.nbytes <= _CACHE_BYTES:
            self._cached = array
        return array

    def constant(self) -> np.ndarray[Any, Any] | None:
        return self.values

    @cached_property
    def ends(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The first and the last 64 elements, which tell most constants apart. They are read once."""
        flat = self.values.reshape(-1)
        return flat[:_END].copy(), flat[-_END:].copy()

    def __repr__(self) -> str:
        return f"Constant({self.name})"


@missing("Node")
class Node(ReadOnly, gs.Node):
    """An operator. `proto` carries its attributes and metadata; `inputs` and `outputs` are the truth for its edges."""

    def __init__(
        self,
        proto: onnx.NodeProto,
        graph: Graph,
        inputs: Iterable[Edge | None] = (),
        outputs: Iterable[Value | None] = (),
    ) -> None:
        self.proto = proto
        self.graph = graph
        self.inputs: tuple[Edge | None, ...] = ReadOnlyTuple(inputs)
        self.outputs: tuple[Value | None, ...] = ReadOnlyTuple(outputs)
        self.op: str = proto.op_type
        self.domain: str = operators.canonical_domain(proto.domain)
        self.position = 0.0  # topological order: larger than that of every producer
        self.is_in_graph = False
        self.bodies: tuple[Graph, ...] = ()  # the subgraphs in its attributes, in the order of the proto
        self.cached_constant: np.ndarray[Any, Any] | None = None
        self._attrs: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.proto.name

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes that are written out, decoded; subgraphs as Graph, references as AttributeRef."""
        if self._attrs is None:
            self._attrs = ReadOnlyDict(operators.decode_attributes(self.proto, self.bodies))
        return self._attrs

    @property
    def has_references(self) -> bool:
        """Whether an attribute is a parameter of the model-local function that holds this node."""
        return self.graph.in_function and any(a.ref_attr_name for a in self.proto.attribute)

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or its default in the operator's schema at this opset, or `default`."""
        if name in self.attrs:
            return self.attrs[name]
        schema_default = operators.attribute_default(self.op, self.domain, self.graph.opset_of(self.domain), name)
        return default if schema_default is None else schema_default

    def is_op(self, *names: str) -> bool:
        """Whether this is one of these operators of the standard domain."""
        return self.op in names and self.domain == ""

    def subgraphs(self, recursive: bool = False) -> Iterator[Graph]:
        for body in self.bodies:
            yield body
            if recursive:
                for node in body.nodes:
                    yield from node.subgraphs(recursive=True)

    def captures(self) -> list[Edge]:
        """The values of the graphs around it that its subgraphs read or hand out, each once."""
        inside = dict.fromkeys(self.subgraphs(recursive=True))
        read = (v for body in inside for v in (*(v for n in body.nodes for v in n.inputs), *body.outputs))
        return list(dict.fromkeys(v for v in read if v is not None and v.graph not in inside))

    def label(self) -> str:
        """What to call this node in a message, also where it has no name."""
        if self.name:
            return self.name
        first = next((o.name for o in self.outputs if o is not None), "")
        return f"{self.op}:{first}"

    def __repr__(self) -> str:
        return f"Node({self.op} {self.label()})"


@missing("Graph")
class Graph(ReadOnly):
    """One scope: the main graph, a subgraph in an attribute, or the body of a model-local function."""

    def __init__(self, model: Model, proto: onnx.GraphProto | onnx.FunctionProto, parent: Graph | None) -> None:
        self.model = model
        self.proto = proto
        self.parent = parent
        self.id = len(model.graphs)
        model.graphs.append(self)
        self.is_function = isinstance(proto, onnx.FunctionProto)
        self.in_function: bool = self.is_function or (parent is not None and parent.in_function)
        self.opsets: dict[str, int] = model.opsets
        if isinstance(proto, onnx.FunctionProto):
            self.opsets = operators.opsets_of(proto)
        elif parent is not None:
            self.opsets = parent.opsets
        self.nodes: dict[Node, None] = NodesOfGraph()
        self.by_operator: dict[tuple[str, str], dict[Node, None]] = {}
        self.values: dict[str, Edge] = {}
        self.inputs: tuple[Edge, ...] = ReadOnlyTuple()
        self.outputs: tuple[Edge, ...] = ReadOnlyTuple()
        self.owner: Node | None = None  # the node that holds this subgraph
        self.changed = False  # nodes, edges or constants differ from the proto

    def opset_of(self, domain: str) -> int:
        """The version of an operator set that this graph imports; 0 where it imports none."""
        return self.opsets.get(domain, 0)

    @property
    def opset(self) -> int:
        return self.opset_of("")

    def constants(self) -> Iterator[Constant]:
        return (v for v in self.values.values() if isinstance(v, Constant))

    def of_operator(self, op: str, domain: str = "") -> list[Node]:
        """The nodes of an operator, in topological order."""
        return sorted(self.by_operator.get((domain, op), ()), key=lambda n: n.position)

    def ordered(self) -> list[Node]:
        """All nodes in topological order."""
        return sorted(self.nodes, key=lambda n: n.position)

    # For rewrite/splice.py and model/build.py only:

    def add_value(self, value: Edge) -> None:
        value.graph = self
        self.values[value.name] = value

    def drop_value(self, value: Edge) -> None:
        if self.values.get(value.name) is value:
            del self.values[value.name]

    def add_node(self, node: Node, position: float) -> None:
        node.graph, node.position, node.is_in_graph = self, position, True
        self.nodes[node] = None
        if node.inputs or node.outputs:  # without both it does nothing, whatever its operator
            self.by_operator.setdefault((node.domain, node.op), {})[node] = None
        for value in node.inputs:
            if value is not None:
                value._uses[node] = value._uses.get(node, 0) + 1
        for output in node.outputs:
            if output is not None:
                output.producer = node
                self.add_value(output)

    def __repr__(self) -> str:
        return f"Graph({self.id}, {len(self.nodes)} nodes)"


class Model:
    """A loaded model: the original proto, its graphs, and the questions that concern all of it."""

    types: Types

    def __init__(self, proto: onnx.ModelProto, folder: str, target: str) -> None:
        self.proto = proto
        self.folder = folder  # where external data is looked for
        self.opsets = operators.opsets_of(proto)
        self.graphs: list[Graph] = []
        self.functions: dict[tuple[str, str, str], Graph] = {}  # by domain, name, overload
        self.target = target
        self.imports_added: dict[str, int] = {}
        self.version = 0  # counts commits: a pass that has seen this version has nothing new to see
        # Bytes by which constant folding has made the model larger so far, in earlier conversions, too.
        self.folding_growth = next((int(p.value) for p in proto.metadata_props if _is_growth(p)), 0)
        self._names: set[str] = set()

    @property
    def main(self) -> Graph:
        return self.graphs[0]

    @property
    def ir_version(self) -> int:
        return self.proto.ir_version

    @property
    def is_for_onnxruntime(self) -> bool:
        return self.target == "onnxruntime-cpu"

    def reserve(self, name: str) -> None:
        self._names.add(name)

    def unique_name(self, base: str) -> str:
        """A name that no value and no node in any scope has: `base` itself where it is free."""
        return fresh_name(base, self._names)


def _is_growth(entry: onnx.StringStringEntryProto) -> bool:
    return entry.key == GROWTH_KEY and entry.value.isdigit()


def shape_of(type_: onnx.TypeProto | None) -> Shape | None:
    """The shape in a tensor type, or None where there is none."""
    if type_ is None or not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
        return None
    return tuple(_dimension(d) for d in type_.tensor_type.shape.dim)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


def users(values: Sequence[Edge]) -> list[Node]:
    """The nodes that use any of these values, each once, in order."""
    return list(dict.fromkeys(node for value in values for node in value._uses))
