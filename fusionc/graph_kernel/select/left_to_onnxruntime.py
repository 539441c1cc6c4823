"""Operators that are kept out of areas, because onnxruntime computes or fuses them when it loads a
model.
"""

from __future__ import annotations

from collections.abc import Mapping

from fusionc.model.graph import Graph, Node
from fusionc.rewrite import Match, Pass
from fusionc.rewrite.matcher import match
from fusionc.runtime.evaluate import can_evaluate, needed_inputs

# Pass → pattern. In opsets without operators for normalizations, these passes change nothing, so
# written-out normalizations are still in the graph.
_NORMS = (("LayerNormFusionPass", "LayerNorm"), ("RmsNormFusionPass", "RmsNorm"))


def computed_at_load(graph: Graph) -> set[Node]:
    """The operators that need only constants, so that onnxruntime computes them at load."""
    found: set[Node] = set()
    for node in graph.ordered():
        if can_evaluate(node) and all(
            v is None or v.is_constant or v.producer in found for v in needed_inputs(node)
        ):
            found.add(node)
    return found


def normalizations(graph: Graph, registry: Mapping[str, Pass]) -> set[Node]:
    """The operators of written-out normalizations that onnxruntime fuses into one operator."""
    patterns = [
        p for pass_name, name in _NORMS for p in registry[pass_name].patterns if p.name == name
    ]
    norms = [match(pattern.formulas, node, {}) for node in graph.ordered() for pattern in patterns]
    return {
        node for norm in norms if norm is not None and _is_recognised(norm) for node in norm.nodes
    }


def _is_recognised(norm: Match) -> bool:
    """Whether the normalization has the form that onnxruntime fuses:
    x / √(mean(x ** 2) + epsilon) · scale + offset, with constants as scale and offset.
    """
    has_form = {"Pow", "Sqrt", "Div"} <= {node.op for node in norm.nodes}
    vectors = (norm.scale, norm.captures.get("offset"))
    return has_form and all(vector is None or vector.is_constant for vector in vectors)
