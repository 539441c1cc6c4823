"""The certain part of inferred shapes, for operators whose shapes onnx and onnxruntime compute
differently.

A known shape must be the true shape when the model runs. For the operators in
`operators.disputed_shapes` a dimension counts as known only if onnx and onnxruntime agree on it.
"""

from __future__ import annotations

from typing import Any

from fusionc.model.graph import Node, Shape
from fusionc.operators.disputed_shapes import RULES, numbers
from fusionc.shapes.onnx_inference import graphs_called

_ANY: Shape = ("any",) * 8
_FAR = 1 << 31  # larger steps of a Slice overflow


def trusted(node: Node, shape: Shape | None) -> Shape | None:
    """The part of the inferred shape of an output that is certain.

    The output shape of a function call counts only if all shapes that onnx infers inside the
    function are certain for any input shapes.
    """
    inside = (inner for graph in graphs_called(node) for inner in graph.nodes)
    if any(_certain_shape(inner, _ANY) != _ANY for inner in inside):
        return None
    sizes = (value.known_type.shape or () for value in node.inputs if value is not None)
    is_empty = node.function is not None and any(0 in shape for shape in sizes)
    return None if is_empty else _certain_shape(node, shape)


def _certain_shape(node: Node, shape: Shape | None) -> Shape | None:
    x: Any = node.inputs[0] if node.inputs else None
    rule = RULES.get(node.op) if node.domain == "" else None
    if rule is None or shape is None or (x is None and node.op != "Loop"):
        return shape
    # At each call of a function, onnx knows values inside the function that are unknown here.
    is_open = node.has_references or any(
        value is not None and not value.is_constant for value in node.inputs[1:]
    )
    return None if node.graph.in_function and is_open else rule(node, x, shape)


def is_fatal(node: Node) -> bool:
    """Whether onnx's inference may crash the process on this node: a Slice whose steps overflow."""
    steps = numbers(node, 4) if node.is_op("Slice") and not node.has_references else None
    return any(abs(step) >= _FAR for step in steps or ())
