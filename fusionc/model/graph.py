"""The graph in memory: onnx-graphsurgeon's nodes and tensors, with identity, exact uses and the
original protos.

Reading follows the onnx-graphsurgeon API (`node.op`, `node.inputs`, `node.attrs`, `tensor.inputs`,
`node.o()`, `isinstance(t, gs.Constant)`): `fusionc/graphsurgeon.py` has the table of what works,
and what is said of the rest. It differs on purpose: equality is identity, inputs and outputs are
read-only tuples (an omitted input is None), and a node keeps its NodeProto, to be written back
untouched. `model/build.py` makes it, `rewrite/splice.py` alone changes what it computes; inference
notes types, and `model/write_back.py` renews the protos.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from fusionc.graphsurgeon import (
    NodesOfGraph,
    ReadOnly,
    ReadOnlyDict,
    ReadOnlyTuple,
    Replaceable,
    missing,
)
from fusionc.model import operators, tensors
from fusionc.model.header import ModelHeader
from fusionc.model.questions import Questions

Shape = tensors.Shape
_CACHE_BYTES = 64 * 1024  # arrays up to this size are kept after the first reading


class Edge(Questions, ReadOnly):
    """What variables and constants have in common: who makes them and who uses them."""

    def __init__(self, name: str, graph: Graph) -> None:
        self.name = name
        self.graph = graph
        # tells it from all other values, in every run alike
        self.serial = next(graph.model.serials)
        self.producer: Node | None = None
        # who hands this value out: its own graph, or subgraphs of nodes beside it
        self.output_of: list[Graph] = []
        self.is_pinned = False  # a quantization annotation or training information names it
        self.known_type = tensors.UNKNOWN  # as declared in the model, or inferred
        # of a vector of integers, as inferred: see `shapes.elements`
        self.elements: list[Any] | None = None
        self._elements: np.ndarray[Any, Any] | None = None  # of a constant, once they were read
        self._uses: dict[Node, None] = {}

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
        """Whether a graph hands this value out."""
        return bool(self.output_of)

    @property
    def is_used(self) -> bool:
        """Whether anybody needs this value."""
        return bool(self._uses) or self.is_output or self.is_pinned

    @property
    def use_count(self) -> int:
        """How many nodes use this value; the graph's outputs are not counted."""
        return len(self._uses)

    @property
    def elem_type(self) -> int:
        """The TensorProto.DataType of the elements; 0 where it is unknown or the value is not a
        tensor.
        """
        return self.graph.model.types.of(self, rank_only=True).elem_type

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The numpy type of the elements (ml_dtypes for those that numpy does not have), or
        None.
        """
        return tensors.numpy_type(self.elem_type)

    @property
    def shape(self) -> Shape | None:
        """An int, a symbol or None for each dimension; None where the rank is unknown."""
        return self.graph.model.types.of(self).shape

    @property
    def rank(self) -> int | None:
        """How many dimensions it has; None where that is unknown."""
        shape = self.graph.model.types.of(self, rank_only=True).shape
        return None if shape is None else len(shape)

    def constant(self) -> np.ndarray[Any, Any] | None:
        """The elements if they are known before the model runs, else None. They are read when asked
        for.
        """
        if not self.is_constant:
            return None
        array = self._read() if self._elements is None else self._elements
        if array.nbytes <= _CACHE_BYTES:
            self._elements = array
        return array

    @property
    def is_constant(self) -> bool:
        """Whether its elements are known before the model runs."""
        maker = self.producer
        return maker is not None and maker.is_op("Constant") and tensors.is_readable(maker.proto)

    def _read(self) -> np.ndarray[Any, Any]:
        assert self.producer is not None
        return tensors.constant_node_array(self.producer.proto, self.graph.model.folder)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@missing("Variable")
class Value(Edge, gs.Variable):
    """What a node makes, or a graph input. The output of a Constant node is a constant as well."""


@missing("Constant")
class Constant(Edge, gs.Constant):
    """An initializer whose value the caller cannot override, or a constant that a pass made."""

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
        """Bytes of the elements as they are stored."""
        return (
            tensors.byte_size(self.data)
            if isinstance(self.data, onnx.TensorProto)
            else self.data.nbytes
        )

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
    """An operator. `proto` carries its attributes and metadata; `inputs` and `outputs` are the
    truth for its edges.
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
        self.position = 0.0  # topological order: larger than that of every producer
        self.is_in_graph = False
        # the subgraphs in its attributes, in the order of the proto
        self.bodies: tuple[Graph, ...] = ()
        for value in self.outputs:
            if value is not None:
                value.producer = self

    @property
    def name(self) -> str:
        return self.proto.name

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes that are written out, decoded; subgraphs as Graph, references as
        AttributeRef.
        """
        bodies = iter(self.bodies)
        return ReadOnlyDict(
            (a.name, operators.decode_attribute(a, bodies)) for a in self.proto.attribute
        )

    @property
    def function(self) -> Graph | None:
        """The body of the model-local function that it calls, if it calls one."""
        return self.graph.model.functions.get((self.domain, self.op, self.proto.overload))

    @property
    def has_references(self) -> bool:
        """Whether an attribute is a parameter of the model-local function that holds this node."""
        return self.graph.in_function and any(a.ref_attr_name for a in self.proto.attribute)

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or its default in the operator's schema at this opset, or `default`."""
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
        """The graphs in its attributes; `recursive` adds those in their nodes."""
        for body in self.bodies:
            yield body
            if recursive:
                for node in body.nodes:
                    yield from node.subgraphs(recursive=True)

    def captures(self) -> list[Edge]:
        """The values of the graphs around it that its subgraphs read or hand out, each once."""
        inside = dict.fromkeys(self.subgraphs(recursive=True))
        read = (
            v
            for body in inside
            for v in (*(v for n in body.nodes for v in n.inputs), *body.outputs)
        )
        return list(dict.fromkeys(v for v in read if v is not None and v.graph not in inside))

    def label(self) -> str:
        """What to call this node in a message, also where it has no name."""
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
        self.changed = False  # nodes, edges or constants differ from the proto

    def opset_of(self, domain: str) -> int:
        """The version of an operator set that this graph imports; 0 where it imports none."""
        return self.opsets.get(domain, 0)

    @property
    def opset(self) -> int:
        return self.opset_of("")

    @property
    def function_key(self) -> tuple[str, str, str]:
        """Under which the model has the function that this is the body of: domain, name,
        overload.
        """
        assert isinstance(self.proto, onnx.FunctionProto)
        return operators.canonical_domain(self.proto.domain), self.proto.name, self.proto.overload

    def find(self, name: str) -> Edge | None:
        """The value that a node in this graph means by a name: one of this graph, or else of a
        graph around it.
        """
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


class Model(ModelHeader):
    """A loaded model: the original proto, its graphs, and the questions that concern all of it."""

    def __init__(self, proto: onnx.ModelProto, folder: str, target: str) -> None:
        super().__init__(proto, folder, target)
        self.graphs: list[Graph] = []
        self.functions: dict[tuple[str, str, str], Graph] = {}  # by domain, name, overload

    @property
    def main(self) -> Graph:
        return self.graphs[0]
