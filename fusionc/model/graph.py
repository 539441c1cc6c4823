"""The graph in memory: subclasses of onnx-graphsurgeon's nodes and tensors that track uses exactly
and keep the original protos.

A graph is read with the onnx-graphsurgeon API (`node.op`, `node.inputs`, `node.attrs`,
`tensor.inputs`, `node.o()`, `isinstance(t, gs.Constant)`): `model/graphsurgeon.py` has a table of
the calls that work. Three things differ on purpose. Equality is identity. Inputs and outputs are
read-only tuples, and an omitted input is None. A node keeps its NodeProto, which is written back
unchanged.

`model/build.py` creates the graph. Only `rewrite/splice.py` changes its nodes and edges. Shape
inference notes types, and `model/write_back.py` updates the protos.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import Any, Protocol

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from fusionc.model import operators, tensors
from fusionc.model.graphsurgeon import (
    NodesOfGraph,
    ReadOnly,
    ReadOnlyDict,
    ReadOnlyTuple,
    Replaceable,
    missing,
)
from fusionc.model.questions import Questions
from fusionc.protos import fresh_name

Shape = tensors.Shape
GROWTH_KEY = "fusionc.folding_growth"
_CACHE_BYTES = 64 * 1024  # arrays up to this size stay in memory after the first reading


class Edge(Questions, ReadOnly):
    """The base of variables and constants: an edge from its producer to its consumers."""

    def __init__(self, name: str, graph: Graph) -> None:
        self.name = name
        self.graph = graph
        # a unique number, the same in every run
        self.serial = next(graph.model.serials)
        self.producer: Node | None = None
        # the graphs that have this value as an output: its own graph, or subgraphs
        self.output_of: list[Graph] = []
        # whether a quantization annotation or training information names this value
        self.is_pinned = False
        self.known_type = tensors.UNKNOWN  # as declared in the model, or inferred
        # the inferred elements of a vector of integers: see `shapes.elements`
        self.elements: list[Any] | None = None
        self._elements: np.ndarray[Any, Any] | None = None  # the cache of `constant()`
        self._uses: dict[Node, None] = {}  # the consumers

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The producer of this value. Empty for graph inputs and initializers."""
        return ReadOnlyTuple(() if self.producer is None else (self.producer,))

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The nodes that use this value, each once, including those in subgraphs."""
        return ReadOnlyTuple(self._uses)

    @property
    def is_output(self) -> bool:
        """Whether the value is an output of a graph."""
        return bool(self.output_of)

    @property
    def is_used(self) -> bool:
        """Whether a node, a graph output or an annotation needs this value."""
        return bool(self._uses) or self.is_output or self.is_pinned

    @property
    def use_count(self) -> int:
        """How many nodes use this value; the graph's outputs are not counted."""
        return len(self._uses)

    @property
    def elem_type(self) -> int:
        """The TensorProto.DataType of the elements; 0 if it is unknown or the value is not a
        tensor.
        """
        return self.graph.model.types.of(self, rank_only=True).elem_type

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The numpy type of the elements, or None if the type is unknown. Types that numpy lacks
        come from ml_dtypes.
        """
        return tensors.numpy_type(self.elem_type)

    @property
    def shape(self) -> Shape | None:
        """An int, a symbol or None for each dimension; None if the rank is unknown."""
        return self.graph.model.types.of(self).shape

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if it is unknown."""
        shape = self.graph.model.types.of(self, rank_only=True).shape
        return None if shape is None else len(shape)

    def constant(self) -> np.ndarray[Any, Any] | None:
        """The elements if they are known before the model runs, otherwise None. They are read from
        the file on demand.
        """
        if not self.is_constant:
            return None
        array = self._read() if self._elements is None else self._elements
        if array.nbytes <= _CACHE_BYTES:
            self._elements = array
        return array

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known before the model runs."""
        node = self.producer
        return node is not None and node.is_op("Constant") and tensors.is_readable(node.proto)

    def _read(self) -> np.ndarray[Any, Any]:
        assert self.producer is not None
        return tensors.constant_node_array(self.producer.proto, self.graph.model.folder)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@missing("Variable")
class Value(Edge, gs.Variable):
    """An output of a node, or a graph input. The output of a Constant node is also a Value; its
    `is_constant` is True.
    """


@missing("Constant")
class Constant(Edge, gs.Constant):
    """An initializer that the caller cannot override, or a constant that a pass made."""

    def __init__(
        self, name: str, graph: Graph, data: onnx.TensorProto | np.ndarray[Any, Any]
    ) -> None:
        super().__init__(name, graph)
        self.data = data
        if isinstance(data, onnx.TensorProto):
            self.known_type = tensors.ValueType(data.data_type, tuple(data.dims))
        else:
            self.known_type = tensors.ValueType(tensors.element_type(data.dtype), data.shape)
            self._elements = data

    is_constant = True

    @property
    def nbytes(self) -> int:
        """The stored size of the elements in bytes."""
        if isinstance(self.data, onnx.TensorProto):
            return tensors.byte_size(self.data)
        return self.data.nbytes

    @property
    def values(self) -> np.ndarray[Any, Any]:
        array = self.constant()
        assert array is not None
        return array

    def _read(self) -> np.ndarray[Any, Any]:
        assert isinstance(self.data, onnx.TensorProto)
        return tensors.to_array(self.data, self.graph.model.folder)


@missing("Node")
class Node(ReadOnly, gs.Node):
    """A node of the graph. `proto` has its attributes and metadata. Its edges are in `inputs` and
    `outputs`: the names in `proto` may be out of date.
    """

    inputs = Replaceable[Edge | None]()

    def __init__(
        self,
        proto: onnx.NodeProto,
        graph: Graph,
        inputs: Iterable[Edge | None] = (),
        outputs: Iterable[Value | None] = (),
    ) -> None:
        self.proto = proto
        self.graph = graph
        self.inputs = ReadOnlyTuple(inputs)
        self.outputs: tuple[Value | None, ...] = ReadOnlyTuple(outputs)
        self.op: str = proto.op_type
        self.domain: str = operators.canonical_domain(proto.domain)
        self.operator = self.domain, self.op  # the key of Graph.by_operator
        self.position = 0.0  # the topological order: every producer has a smaller position
        self.is_in_graph = False
        # the subgraphs in the attributes, in the order of the proto
        self.bodies: tuple[Graph, ...] = ()
        for value in self.outputs:
            if value is not None:
                value.producer = self

    @property
    def name(self) -> str:
        return self.proto.name

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes in the proto, decoded. Subgraphs are Graph objects, references are
        AttributeRef objects.
        """
        bodies = iter(self.bodies)
        return ReadOnlyDict(
            (a.name, operators.decode_attribute(a, bodies)) for a in self.proto.attribute
        )

    @property
    def function(self) -> Graph | None:
        """The body of the model-local function that this node calls, if it calls one."""
        return self.graph.model.functions.get((self.domain, self.op, self.proto.overload))

    @property
    def has_references(self) -> bool:
        """Whether an attribute refers to an attribute of the model-local function around this
        node.
        """
        return self.graph.in_function and any(a.ref_attr_name for a in self.proto.attribute)

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute. If the node lacks it: its default in the operator's schema at this opset,
        or else `default`.
        """
        if name in self.attrs:
            return self.attrs[name]
        schema_default = operators.attribute_default(
            self.op, self.domain, self.graph.opset_of(self.domain), name
        )
        return default if schema_default is None else schema_default

    def is_op(self, *names: str) -> bool:
        """Whether this is one of these operators of the standard domain."""
        return self.op in names and self.domain == ""

    def subgraphs(self, recursive: bool = False) -> Iterator[Graph]:
        """The graphs in the attributes; `recursive` adds the graphs nested in these."""
        for body in self.bodies:
            yield body
            if recursive:
                for node in body.nodes:
                    yield from node.subgraphs(recursive=True)

    def captures(self) -> list[Edge]:
        """The values of outer graphs that the subgraphs read or have as outputs, each once."""
        inside = dict.fromkeys(self.subgraphs(recursive=True))
        read: dict[Edge | None, None] = {}
        for body in inside:
            read |= dict.fromkeys(value for node in body.nodes for value in node.inputs)
            read |= dict.fromkeys(body.outputs)
        return [value for value in read if value is not None and value.graph not in inside]

    def label(self) -> str:
        """The name of this node for messages: its own name, or else its operator and first
        output.
        """
        first = next((o.name for o in self.outputs if o is not None), "")
        return self.name or f"{self.op}:{first}"

    def __repr__(self) -> str:
        return f"Node({self.op} {self.label()})"


@missing("Graph")
class Graph(ReadOnly):
    """One scope: the main graph, a subgraph in an attribute, or the body of a model-local
    function.
    """

    outputs = Replaceable[Edge]()

    def __init__(
        self, model: Model, proto: onnx.GraphProto | onnx.FunctionProto, parent: Graph | None
    ) -> None:
        self.model = model
        self.proto = proto
        self.parent = parent
        self.id = len(model.graphs)
        model.graphs.append(self)
        self.is_function = isinstance(proto, onnx.FunctionProto)
        self.in_function: bool = self.is_function or (parent is not None and parent.in_function)
        around = model.opsets if parent is None else parent.opsets
        self.opsets: dict[str, int] = (
            operators.opsets_of(proto) if isinstance(proto, onnx.FunctionProto) else around
        )
        self.nodes: dict[Node, None] = NodesOfGraph()
        self.by_operator: dict[tuple[str, str], dict[Node, None]] = {}
        self.values: dict[str, Edge] = {}
        self.inputs: tuple[Edge, ...] = ReadOnlyTuple()
        self.outputs = ReadOnlyTuple()
        self.owner: Node | None = None  # the node that holds this subgraph
        self.changed = False  # whether nodes, edges or constants differ from those in the proto

    def opset_of(self, domain: str) -> int:
        """The version of an operator set that this graph imports; 0 if it imports none."""
        return self.opsets.get(domain, 0)

    @property
    def opset(self) -> int:
        return self.opset_of("")

    @property
    def function_key(self) -> tuple[str, str, str]:
        """The key of the function whose body this is: domain, name, overload."""
        assert isinstance(self.proto, onnx.FunctionProto)
        return operators.canonical_domain(self.proto.domain), self.proto.name, self.proto.overload

    def find(self, name: str) -> Edge | None:
        """The value with this name in the graph, or else in the nearest graph around it."""
        scope = self
        while name not in scope.values and scope.parent is not None:
            scope = scope.parent
        return scope.values.get(name)

    def constants(self) -> Iterator[Constant]:
        return (v for v in self.values.values() if isinstance(v, Constant))

    def of_operator(self, op: str, domain: str = "") -> list[Node]:
        """The nodes of an operator, in topological order."""
        return sorted(self.by_operator.get((domain, op), ()), key=lambda n: n.position)

    def ordered(self) -> list[Node]:
        """All nodes in topological order."""
        return sorted(self.nodes, key=lambda n: n.position)


class Types(Protocol):
    """The interface of type inference. `shapes.inference`, a room above this one, implements it."""

    def of(self, value: Edge, *, rank_only: bool = False) -> tensors.ValueType:
        """The type of a value as far as it is known. If `rank_only` is true, the sizes of its
        dimensions may be missing although they could be inferred.
        """

    def elements_of(self, value: Edge) -> list[Any] | None:
        """The known elements of an integer vector or scalar that is not a constant."""

    def begin_pass(self) -> None:
        """Note that a pass starts: the types may be inferred again once in each pass."""

    def new_symbol(self) -> str:
        """A name for an unknown dimension."""

    def note_commit(self, replaced: Sequence[tuple[Edge, Edge]], new_nodes: Sequence[Node]) -> None:
        """Note that the graph has changed: the second value of each pair has replaced the first."""


class Model:
    """A loaded model: the original proto, and the data that its graphs share."""

    types: Types

    def __init__(self, proto: onnx.ModelProto, folder: str, target: str) -> None:
        self.proto = proto
        self.folder = folder  # the folder of external data
        self.target = target
        self.graphs: list[Graph] = []
        self.functions: dict[tuple[str, str, str], Graph] = {}  # by domain, name, overload
        self.opsets = operators.opsets_of(proto)
        self.serials = count()  # the serial numbers of values
        self.version = 0  # the number of commits; while it stays the same, passes find nothing new
        # the bytes by which constant folding has made the model larger, in this conversion and in
        # earlier ones
        growth = (
            p.value for p in proto.metadata_props if p.key == GROWTH_KEY and p.value.isdigit()
        )
        self.folding_growth = int(next(growth, 0))
        # the names of values and nodes in all scopes, in the form that `fresh_name` needs
        self.names: dict[str, int] = {}

    @property
    def main(self) -> Graph:
        return self.graphs[0]

    @property
    def ir_version(self) -> int:
        """The IR version of the model."""
        return self.proto.ir_version

    @property
    def is_for_onnxruntime(self) -> bool:
        """Whether the result may use operators that only onnxruntime has."""
        return self.target == "onnxruntime-cpu"

    def unique_name(self, base: str) -> str:
        """A name that no value and no node has in any scope; `base` itself if it is free."""
        return fresh_name(base, self.names)
