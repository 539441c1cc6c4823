"""Operators that onnx does not know: operators of other domains, and operators that runtimes and
plugins add to the standard domain.

Raising the opset does not change these operators. While onnx converts or checks a model, they are
hidden in another domain.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import ModelProto, NodeProto

from fusionc.errors import UsageError
from fusionc.model.operators import canonical_domain
from fusionc.operators.early_operators import EARLY
from fusionc.protos import bodies_of
from fusionc.requested.target_opset.limits import OPTION

HIDDEN = "fusionc.unknown"


def is_unknown(node: NodeProto, version: int) -> bool:
    """Whether onnx does not know the operator of a node. `version` is the version of the standard
    opset.
    """
    domain = canonical_domain(node.domain)
    return not onnx.defs.has(
        node.op_type, version if not domain else onnx.defs.onnx_opset_version(), domain
    )


def hide(nodes: Iterable[NodeProto], version: int) -> None:
    """Move the nodes that onnx does not know, also in subgraphs, to the domain HIDDEN."""
    for node in nodes:
        if is_unknown(node, version):
            node.domain = HIDDEN
        for body in bodies_of(node):
            hide(body.node, version)


def hidden_domain() -> onnx.OperatorSetIdProto:
    """The import that a model with hidden nodes needs."""
    return onnx.helper.make_opsetid(HIDDEN, 1)


def hide_unknown(light: ModelProto, version: int) -> ModelProto:
    """Hide unknown nodes in the model for onnx's checker, and return the model."""
    hide(light.graph.node, version)
    for function in light.functions:
        hide(function.node, version)
        function.opset_import.append(hidden_domain())
    light.opset_import.append(hidden_domain())
    return light


def require_same_operators(nodes: Iterable[NodeProto], old: int, new: int) -> None:
    """Raise UsageError if a node has an operator that only a runtime knows, and onnx has another
    operator with this name at the newer opset: the node would then change its meaning.
    """
    for node in nodes:
        for body in bodies_of(node):
            require_same_operators(body.node, old, new)
        if canonical_domain(node.domain) or node.op_type in EARLY or not is_unknown(node, old):
            continue
        if not is_unknown(node, new):
            since = onnx.defs.get_schema(node.op_type, new).since_version
            first = next(v for v in range(old, new + 1) if not is_unknown(node, v))
            raise UsageError(
                (
                    f"{node.op_type} is an operator of onnx only from opset {first} on: this node, "
                    f"which is another operator, would become that of opset {since}"
                ),
                where=OPTION,
                hint=f"give at most {first - 1}, or move the operator to another domain",
                code="E10001",
            )
