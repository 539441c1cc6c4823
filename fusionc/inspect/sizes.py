"""Open sizes: what they cost, and how to fix them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain

from onnx import TensorProto, TypeProto

from fusionc.inspect.finding import Finding, counted
from fusionc.model.graph import Model, Node, Shape
from fusionc.report.model_info import dimension_text
from fusionc.shapes.expressions import is_static

_INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
_RANK_OF_IMAGES = 4  # [N, C, H, W]
_ANY_RANK = "…"


def findings(model: Model) -> Iterator[Finding]:
    """A finding on the open dimensions of the inputs, and on the nodes that compute shapes from
    these dimensions.
    """
    shapes = {
        value.name: value.shape
        for value in model.main.inputs
        if value.elem_type and not is_static(value.shape)
    }
    if not shapes:
        return
    declared = {value.name: value.type for value in model.main.proto.input}
    names = {name: _names(shape, declared[name]) for name, shape in shapes.items()}
    fixed = _advice(names)
    if count := sum(len(_shape_nodes(graph.ordered())) for graph in model.graphs):
        cost = f"shapes are computed from these sizes in {counted(count, 'node')}"
        gain = "many of these nodes then become constants, and more fusions may be possible"
        to_do = f"if sizes never change, {fixed}: {gain}"
    else:
        cost = "no shape is computed from these sizes"
        to_do = f"nothing needs to be done; to fix them, {fixed}"
    text = ", ".join(f"{name}[{','.join(dims)}]" for name, dims in names.items())
    yield Finding("open sizes", f"{text}: {cost}", to_do, tuple(shapes))


def _advice(names: Mapping[str, Sequence[str]]) -> str:
    """How to convert the model with fixed sizes, given the names of its dimensions."""
    sizes = {name: _suggested_sizes(dims) for name, dims in names.items()}
    option = ";".join(f"{name}:{','.join(dims)}" for name, dims in sizes.items())
    fixed = f'convert with --input_shape "{option}"'
    unknown = [dim for dim in chain.from_iterable(sizes.values()) if not dim.isdecimal()]
    return fixed + (
        f" and numbers in place of {', '.join(dict.fromkeys(unknown))}" if unknown else ""
    )


def _names(shape: Shape | None, declared: TypeProto) -> list[str]:
    """The dimensions of an input under their names in the model."""
    if shape is None:
        return [_ANY_RANK]
    return [
        str(known) if isinstance(known, int) else dimension_text(dim)
        for known, dim in zip(shape, declared.tensor_type.shape.dim, strict=True)
    ]


def _suggested_sizes(dims: Sequence[str]) -> list[str]:
    """The sizes to suggest: 1 for the batch, H and W for images. Any other dimension keeps its
    name, because only the user knows its size.
    """
    if dims == [_ANY_RANK]:
        return list(dims)
    unnamed = dict(zip((2, 3), "HW", strict=True)) if len(dims) == _RANK_OF_IMAGES else {}
    return [
        name
        if name.isdecimal()
        else "1"
        if axis == 0
        else name
        if name.isidentifier()
        else unnamed.get(axis, "?")
        for axis, name in enumerate(dims)
    ]


def _shape_nodes(nodes: list[Node]) -> list[Node]:
    """The Shape nodes, and the nodes that compute integers only from the results of these."""
    shape_nodes: dict[Node, None] = {}
    for node in nodes:
        if node.is_op("Shape", "Size") or _continues(node, shape_nodes):
            shape_nodes[node] = None
    return list(shape_nodes)


def _continues(node: Node, shape_nodes: Container[Node | None]) -> bool:
    """Whether a node computes integers only from constants and results of `shape_nodes`."""
    producers = [
        value.producer for value in node.inputs if value is not None and not value.is_constant
    ]
    if not producers or not all(producer in shape_nodes for producer in producers):
        return False
    return all(value.elem_type in _INTEGERS for value in node.outputs if value is not None)
