"""Measures of one model: the counts and sizes of its contents, and the cost of a run. The cost is
computed from the shapes. An area (a group of operators with one generated kernel) counts as one
operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import onnx

from fusionc.model.functions import inlined
from fusionc.model.graph import Edge, Model, Node
from fusionc.model.operators import KERNELS
from fusionc.model.tensors import byte_size
from fusionc.operators.domains import TRADITIONAL
from fusionc.protos import copied, inputs_to_feed, light_copy, tensors_of
from fusionc.report.area_labels import area_labels
from fusionc.report.model_info import bytes_on_disk, operator_counts
from fusionc.report.model_nodes import nodes_of_graphs
from fusionc.report.node_cost import UnknownSize, bytes_moved_by, operations_of
from fusionc.requested.dimension_size import OPEN
from fusionc.requested.input_shape import fix_sizes
from fusionc.shapes.expressions import is_static
from fusionc.shapes.inference import typed_model
from fusionc.verify.inputs.formulas import formula_of

_DEFAULT_SIZE = 1  # of a dimension whose size is given neither by the model nor by the caller


@dataclass(frozen=True)
class Measures:
    """The measures of one model."""

    ir_version: int
    opsets: dict[str, int]  # versions by domain
    operators: dict[str, int]  # the number of nodes by operator
    bytes: int  # the size of model and weights on disk
    parameters: int  # the number of elements of all tensors
    parameter_bytes: int
    operations: int  # in one run with `sizes`; nodes of unknown size are left out
    bytes_moved: int  # in one run with `sizes`; an area moves only its inputs and outputs
    unknown: int  # the number of nodes of unknown size
    sizes: dict[str, tuple[int, ...]]  # the input sizes of the run, by input name
    areas: dict[str, str]  # the label of each area by its name

    @property
    def nodes(self) -> int:
        """The number of nodes, including those in subgraphs and functions."""
        return sum(self.operators.values())


class Sized:
    """A model with a fixed size for every dimension of its inputs. All functions except areas are
    inlined.
    """

    def __init__(
        self, proto: onnx.ModelProto, folder: str, input_shape: Mapping[str, Sequence[int]]
    ) -> None:
        self.folder = folder
        self.areas = [(KERNELS, f.name) for f in proto.functions if f.domain == KERNELS]
        self.proto = inlined(light_copy(proto, keeps_external=True), self.areas)
        _clear_inferable_types(self.proto.graph)
        requested = _all_sizes(proto, input_shape)
        fix_sizes(self.proto, requested, folder)
        self.sizes = {
            value.name: _sizes(value) for value in self.proto.graph.input if value.name in requested
        }
        self.model = typed_model(self.proto, folder)

    def whole(self) -> Model:
        """The model with areas inlined, too."""
        if not self.areas:
            return self.model
        return typed_model(inlined(copied(self.proto)), self.folder)

    def learn(self, other: Sized) -> None:
        """Copy types from the other model to the values with the same names whose shapes are
        unknown here: onnx cannot infer types for operators that it does not know.
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


def _clear_inferable_types(graph: onnx.GraphProto) -> None:
    """Remove the declared types of outputs of standard operators, so that inference computes them
    for the requested sizes.
    """
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
    """The measures of a model that was read from `path`."""
    tensors = list(tensors_of(proto))
    moved, unknown = _total(sized.model, bytes_moved_by)
    operations, uncounted = _total(sized.whole(), operations_of)
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
        areas=area_labels(proto),
    )


def _all_sizes(
    proto: onnx.ModelProto, requested: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """The sizes of all input tensors with a declared rank. A dimension that the model leaves open
    gets the requested size, or else `_DEFAULT_SIZE`. It stays open if it is a formula of other
    dimensions.
    """
    known: dict[str, int] = {}
    for value in proto.graph.input:
        for dim, size in zip(
            value.type.tensor_type.shape.dim, requested.get(value.name, ()), strict=False
        ):
            known[dim.dim_param] = size
    known.pop("", None)

    def size_of(dim: onnx.TensorShapeProto.Dimension) -> int:
        if (dim.HasField("dim_value") and dim.dim_value >= 0) or formula_of(dim.dim_param):
            return OPEN
        return known.get(dim.dim_param, _DEFAULT_SIZE)

    types = {value.name: value.type.tensor_type for value in inputs_to_feed(proto.graph)}
    defaults = {
        name: tuple(map(size_of, type_.shape.dim))
        for name, type_ in types.items()
        if type_.HasField("shape")
    }
    return {**defaults, **{name: tuple(sizes) for name, sizes in requested.items()}}


def _sizes(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def _total(model: Model, cost_of: Callable[[Node], int]) -> tuple[int, int]:
    """The total cost of all nodes of known size, and the number of nodes of unknown size."""
    total = unknown = 0
    for node in nodes_of_graphs(model):
        try:
            total += cost_of(node)
        except UnknownSize:
            unknown += 1
    return total, unknown
