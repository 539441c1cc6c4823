"""What is certain of the shapes that onnx infers, where onnxruntime may compute others.

What is known of a shape must be true when the model runs. For the operators of
`operators.disputed_shapes` it may not be: their dimensions count as known only where onnx and
onnxruntime agree.
"""

from __future__ import annotations

from typing import Any

from fusionc.model.graph import Node, Shape
from fusionc.operators.disputed_shapes import RULES, numbers
from fusionc.shapes.onnx_inference import graphs_called

_ANY: Shape = ("any",) * 8
_FAR = 1 << 31  # steps beyond this overflow


def trusted(node: Node, shape: Shape | None) -> Shape | None:
    """What is true of the shape that inference says an output of a node has.

    What a function makes is known where all that onnx infers inside it is true, whatever the shapes
    are there.
    """
    inside = (inner for graph in graphs_called(node) for inner in graph.nodes)
    is_empty = node.function is not None and any(
        0 in (v.known_type.shape or ()) for v in node.inputs if v is not None
    )
    return (
        None
        if is_empty or any(_by_rule(inner, _ANY) != _ANY for inner in inside)
        else _by_rule(node, shape)
    )


def _by_rule(node: Node, shape: Shape | None) -> Shape | None:
    x: Any = node.inputs[0] if node.inputs else None
    rule = (
        RULES.get(node.op) if node.domain == "" and (x is not None or node.op == "Loop") else None
    )
    if rule is None or shape is None:
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
