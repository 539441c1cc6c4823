"""Numbers of one model: its contents, and the cost of a run by its shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import onnx

from fusionc.diff.model_nodes import nodes_of_graphs
from fusionc.diff.node_cost import UnknownSize, bytes_moved_by, operations_of
from fusionc.model.functions import inlined
from fusionc.model.graph import Edge, Model, Node
from fusionc.model.operators import KERNELS
from fusionc.model.tensors import byte_size
from fusionc.operators.domains import TRADITIONAL
from fusionc.protos import copied, inputs_to_feed, light_copy, tensors_of
from fusionc.report.model_info import bytes_on_disk, operator_counts
from fusionc.requested.dimension_size import OPEN
from fusionc.requested.input_shape import fix_sizes
from fusionc.shapes.expressions import is_static
from fusionc.shapes.inference import typed_model
from fusionc.verify.inputs.formulas import formula_of

_SIZE = 1  # of a dimension whose size neither the model nor the caller gives


@dataclass(frozen=True)
class Measures:
    """Numbers of one model."""

    ir_version: int
    opsets: dict[str, int]
    operators: dict[str, int]  # number of nodes, by operator
    bytes: int  # of model and weights on disk
    parameters: int  # elements of all tensors
    parameter_bytes: int
    operations: int  # of one run at `sizes`, without the nodes in `unknown`
    bytes_moved: int  # by one run at `sizes`; an area moves its inputs and outputs
    unknown: int  # nodes of unknown size
    sizes: dict[str, tuple[int, ...]]  # of the inputs

    @property
    def nodes(self) -> int:
        """The number of nodes, including those in subgraphs and functions."""
        return sum(self.operators.values())


class Sized:
    """A model with a size for every dimension of its inputs, and its functions expanded, except
    areas.
    """

    def __init__(
        self, proto: onnx.ModelProto, folder: str, input_shape: Mapping[str, Sequence[int]]
    ) -> None:
        self.folder = folder
        self.areas = [(KERNELS, f.name) for f in proto.functions if f.domain == KERNELS]
        self.proto = inlined(light_copy(proto, keeps_external=True), self.areas)
        _forget_what_follows(self.proto.graph)
        wanted = _all_sizes(proto, input_shape)
        fix_sizes(self.proto, wanted, folder)
        self.sizes = {
            value.name: _sizes(value) for value in self.proto.graph.input if value.name in wanted
        }
        self.model = typed_model(self.proto, folder)

    def learn(self, other: Sized) -> None:
        """Take over the types that another model has for values of the same name; they count for
        operators that onnx does not know.
        """
        values = self.model.main.values
        known = other.model.main.values
        names = [name for node in self.proto.graph.node for name in node.output if name in known]
        new = [name for name in names if not _is_sized(values.get(name)) and _is_sized(known[name])]
        if new:
            infos = [info for info in self.proto.graph.value_info if info.name not in new]
            infos += [
                onnx.ValueInfoProto(name=name, type=known[name].known_type.proto) for name in new
            ]
            del self.proto.graph.value_info[:]
            self.proto.graph.value_info.extend(infos)
            self.model = typed_model(self.proto, self.folder)


def _forget_what_follows(graph: onnx.GraphProto) -> None:
    """Remove declared types that inference finds for the requested sizes."""
    foreign = {
        name
        for node in graph.node
        if node.domain not in ("", "ai.onnx", TRADITIONAL)
        for name in node.output
    }
    kept = [info for info in graph.value_info if info.name in foreign]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    for output in graph.output:
        if output.name not in foreign:
            output.ClearField("type")


def _is_sized(value: Edge | None) -> bool:
    """Whether all dimensions of a value are known."""
    return value is not None and is_static(value.shape)


def measures_of(proto: onnx.ModelProto, path: Path, sized: Sized) -> Measures:
    """Measure a model that was read from `path`."""
    tensors = list(tensors_of(proto))
    moved, unknown = _total(sized.model, bytes_moved_by)
    computed = sized.model
    if sized.areas:
        whole = copied(sized.proto)
        computed = typed_model(inlined(whole), sized.folder)
    operations, uncounted = _total(computed, operations_of)
    return Measures(
        ir_version=proto.ir_version,
        opsets={opset.domain or "ai.onnx": opset.version for opset in proto.opset_import},
        operators=operator_counts(proto),
        bytes=bytes_on_disk(proto, path),
        parameters=sum(prod(tensor.dims) for tensor in tensors),
        parameter_bytes=sum(map(byte_size, tensors)),
        operations=operations,
        bytes_moved=moved,
        unknown=max(unknown, uncounted),
        sizes=sized.sizes,
    )


def _all_sizes(
    proto: onnx.ModelProto, given: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """The sizes of all inputs that are tensors with a shape: those given, and `_SIZE` for other
    open dimensions; a dimension that is a formula of others follows from them.
    """
    known: dict[str, int] = {}
    for value in proto.graph.input:
        for dim, asked in zip(
            value.type.tensor_type.shape.dim, given.get(value.name, ()), strict=False
        ):
            known[dim.dim_param] = asked
    known.pop("", None)

    def size_of(dim: onnx.TensorShapeProto.Dimension) -> int:
        if (dim.HasField("dim_value") and dim.dim_value >= 0) or formula_of(dim.dim_param):
            return OPEN
        return known.get(dim.dim_param, _SIZE)

    types = {value.name: value.type.tensor_type for value in inputs_to_feed(proto.graph)}
    found = {
        name: tuple(map(size_of, type_.shape.dim))
        for name, type_ in types.items()
        if type_.HasField("shape")
    }
    return {**found, **{name: tuple(sizes) for name, sizes in given.items()}}


def _sizes(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def _total(model: Model, cost_of: Callable[[Node], int]) -> tuple[int, int]:
    """The sum over all nodes, and the number of nodes of unknown size."""
    total = unknown = 0
    for node in nodes_of_graphs(model):
        try:
            total += cost_of(node)
        except UnknownSize:
            unknown += 1
    return total, unknown
