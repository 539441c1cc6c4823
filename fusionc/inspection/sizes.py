"""Sizes that are left open: what they cost, and how to fix them."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

from fusionc.inspection.finding import Finding, counted
from fusionc.model.graph import Model, Node, Shape
from fusionc.shapes.expressions import is_invented

_INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)


def findings(model: Model) -> Iterator[Finding]:
    """What is to say of the open dimensions of the inputs, and of the nodes that compute shapes from them."""
    shapes = {value.name: value.shape for value in model.main.inputs if value.elem_type and not _is_fixed(value.shape)}
    if not shapes:
        return
    count = sum(len(_of_shapes(graph.ordered())) for graph in model.graphs)
    cost = f"shapes are computed from them in {counted(count, 'node')}" if count else "no shape is computed from them"
    option = ";".join(f"{name}:{_fixed(shape)}" for name, shape in shapes.items())
    yield Finding(
        "open sizes",
        f"{', '.join(f'{name}[{_text(shape)}]' for name, shape in shapes.items())}: {cost}",
        f'where sizes never change, convert with --input_shape "{option}", your numbers in the place of 1: then shapes '
        "are constants, and more fusions fit",
        tuple(shapes),
    )


def _is_fixed(shape: Shape | None) -> bool:
    return shape is not None and all(isinstance(d, int) for d in shape)


def _fixed(shape: Shape | None) -> str:
    return "1" if shape is None else ",".join(str(d) if isinstance(d, int) else "1" for d in shape)


def _text(shape: Shape | None) -> str:
    return "…" if shape is None else ",".join("?" if d is None or is_invented(d) else str(d) for d in shape)


def _of_shapes(nodes: list[Node]) -> list[Node]:
    """Shape, and the nodes that compute integers from what it gives alone."""
    found: dict[Node, None] = {}
    for node in nodes:
        made = [value.producer for value in node.inputs if value is not None and not value.is_constant]
        outputs = [value for value in node.outputs if value is not None]
        is_next = made and all(maker in found for maker in made) and all(v.elem_type in _INTEGERS for v in outputs)
        if node.is_op("Shape", "Size") or is_next:
            found[node] = None
    return list(found)
