"""The certain part of shapes that onnx infers although onnxruntime may compute others.

A known shape must be the true one when the model runs. For the operators of
`operators.disputed_shapes` it may be another one: a dimension of theirs counts as known only if
onnx and onnxruntime agree on it.
"""

from __future__ import annotations

from typing import Any

from fusionc.model.graph import Node, Shape
from fusionc.operators.disputed_shapes import RULES, numbers
from fusionc.shapes.onnx_inference import graphs_called

_ANY: Shape = ("any",) * 8
_FAR = 1 << 31  # steps beyond this overflow


def trusted(node: Node, shape: Shape | None) -> Shape | None:
    """The part of the inferred shape of an output that is certain.

    The output of a function is known only if all that onnx infers inside the function is certain
    whatever the shapes are.
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
    # Of a function, onnx knows at a call what it is called with.
    is_open = node.has_references or any(
        value is not None and not value.is_constant for value in node.inputs[1:]
    )
    return None if node.graph.in_function and is_open else rule(node, x, shape)


def is_fatal(node: Node) -> bool:
    """Whether inference may crash on a node: a Slice whose steps overflow."""
    steps = numbers(node, 4) if node.is_op("Slice") and not node.has_references else None
    return any(abs(step) >= _FAR for step in steps or ())
