"""Expand: replace composite operators by basic operators, as their definitions in ONNX or
onnxruntime say.

If a kernel can compute an operator as it is, the operator is not expanded, because then the kernel
is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np
import onnx
import onnx.inliner
import onnx.numpy_helper

from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.select.operator_kinds import EXPAND, SQUARE
from fusionc.model import operators
from fusionc.model.graph import Node
from fusionc.model.operators import MICROSOFT, qualified

# Definitions of onnxruntime's own operators, as ONNX text. CastLike gives each constant the element
# type of the input.
_DEFINITIONS = {
    "QuickGelu": """QuickGelu <alpha> (X) => (Y) {
        A = Constant <value_float : float = @alpha> ()  B = CastLike (A, X)  C = Mul (B, X)
        D = Sigmoid (C)  Y = Mul (X, D) }""",
    "Gelu": """Gelu (X) => (Y) {
        A = Constant <value_float = 0.7071067811865476> ()  B = CastLike (A, X)  C = Mul (X, B)
        D = Erf (C)  E = Constant <value_float = 1.0> ()  F = CastLike (E, X)  G = Add (D, F)
        H = Constant <value_float = 0.5> ()  I = CastLike (H, X)  J = Mul (X, I)
        Y = Mul (J, G) }""",
    "BiasGelu": """BiasGelu (S, T) => (Y) {
        X = Add (S, T)  A = Constant <value_float = 0.7071067811865476> ()  B = CastLike (A, X)
        C = Mul (X, B)  D = Erf (C)  E = Constant <value_float = 1.0> ()  F = CastLike (E, X)
        G = Add (D, F)  H = Constant <value_float = 0.5> ()  I = CastLike (H, X)  J = Mul (X, I)
        Y = Mul (J, G) }""",
    "FastGelu": """FastGelu (X, bias) => (Y) {
        S = Add (X, bias)  A = Constant <value_float = 0.044715> ()  B = CastLike (A, S)
        C = Mul (S, S)  D = Mul (C, S)  E = Mul (D, B)  F = Add (S, E)
        G = Constant <value_float = 0.7978845608028654> ()  H = CastLike (G, S)  I = Mul (F, H)
        J = Tanh (I)  K = Constant <value_float = 1.0> ()  L = CastLike (K, S)  M = Add (J, L)
        N = Constant <value_float = 0.5> ()  O = CastLike (N, S)  P = Mul (S, O)
        Y = Mul (P, M) }""",
}
_DEFAULTS = {"QuickGelu": {"alpha": 1.702}}  # of attributes of onnxruntime's operators
_ALWAYS = ("", "CastLike")  # always expanded, after the others, because their definitions use it
_CAST_LIKE = 15  # the first opset that has CastLike


class Expander:
    """Decides which operators may be expanded, and expands them in the model of a cluster."""

    def __init__(
        self, flags: Flags, is_on: bool, why_unsupported: Callable[[Node], str | None]
    ) -> None:
        self._forced = frozenset((*flags.enable_expand_ops, *flags.enable_expand_ops_only))
        # The parts of an operator that must not be in a cluster must not be in an area either.
        left_out = frozenset(flags.disable_cluster_ops) - self._forced
        self._names = flags.expands(EXPAND) - left_out if is_on else frozenset()
        self._why_unsupported = why_unsupported

    def takes(self, node: Node) -> bool:
        """Whether this operator is expanded."""
        name = qualified(node.op, node.domain)
        if name not in self._names or node.bodies or not _has_numbers(node) or _is_rounded(node):
            return False
        if name not in self._forced and self._why_unsupported(node) is None:
            return False
        return _has_definition(node)

    def expand(self, proto: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
        """The model with the operators of these names replaced by basic operators."""
        if SQUARE in names:
            names = [name for name in names if name != SQUARE]
            _expand_squares(proto.graph)
        ids = [_split(name) for name in sorted(names)]
        _complete(proto, ids)
        typed = onnx.shape_inference.infer_shapes(proto)
        # Only shape inference needed the definitions of operators that are not expanded.
        for function in list(typed.functions):
            if (function.domain, function.name) not in ids:
                typed.functions.remove(function)
        expanded = onnx.inliner.inline_selected_functions(
            typed, [*ids, _ALWAYS], inline_schema_functions=True
        )
        del expanded.functions[:], expanded.graph.value_info[:]
        return expanded


def _complete(proto: onnx.ModelProto, ids: Sequence[tuple[str, str]]) -> None:
    """Add the definitions of onnxruntime's operators, and the default attributes of all operators
    that have definitions.
    """
    opset = proto.opset_import[0].version
    own = {node.op_type for node in proto.graph.node if node.domain == MICROSOFT}
    proto.functions.extend(_definition(op, opset) for op in sorted(own))
    for node in proto.graph.node:
        if (node.domain, node.op_type) in ids or node.domain == MICROSOFT:
            _write_defaults(node, opset)


def _split(name: str) -> tuple[str, str]:
    domain, _, op = name.rpartition(".")
    return domain, op


def _expand_squares(graph: onnx.GraphProto) -> None:
    squares = {t.name for t in graph.initializer if _is_two(onnx.numpy_helper.to_array(t))}
    for node in graph.node:
        if not node.domain and node.op_type == SQUARE and node.input[1] in squares:
            node.op_type = "Mul"
            node.input[1] = node.input[0]


def _is_two(exponent: np.ndarray) -> bool:
    return exponent.shape == () and bool(exponent == 2)


def _has_numbers(node: Node) -> bool:
    """Whether all attributes are finite. For others, onnxruntime may differ from the definition."""
    return all(
        math.isfinite(number)
        for attribute in node.proto.attribute
        for number in (attribute.f, *attribute.floats)
    )


def _is_rounded(node: Node) -> bool:
    """Whether the definition rounds attributes to the type of the input, but onnxruntime keeps them
    in float32.
    """
    kind = None if node.inputs[0] is None else node.inputs[0].elem_type
    return (
        node.op == "Shrink" and kind != onnx.TensorProto.FLOAT and kind != onnx.TensorProto.DOUBLE
    )


def _has_definition(node: Node) -> bool:
    if not node.domain and node.op == SQUARE:
        exponent = node.inputs[1].constant() if node.inputs[1] is not None else None
        return exponent is not None and _is_two(exponent)
    if node.domain == MICROSOFT:
        has_bias = len(node.inputs) == 2 and None not in node.inputs
        return (
            node.op in _DEFINITIONS
            and node.graph.opset >= _CAST_LIKE
            and (node.op != "FastGelu" or has_bias)
        )
    return operators.is_composite(node.op, node.domain, node.graph.opset_of(node.domain))


def _write_defaults(node: onnx.NodeProto, opset: int) -> None:
    """Give a node the attributes that it omits, because onnx's inliner needs all of them."""
    known = operators.schema(node.op_type, node.domain, opset)
    defaults = [a.default_value for a in known.attributes.values()] if known is not None else []
    own = _DEFAULTS.get(node.op_type, {}) if node.domain == MICROSOFT else {}
    written = {attribute.name for attribute in node.attribute}
    for default in [
        *defaults,
        *(onnx.helper.make_attribute(name, value) for name, value in own.items()),
    ]:
        if default.type != onnx.AttributeProto.UNDEFINED and default.name not in written:
            node.attribute.append(default)


@cache
def _definition(op: str, opset: int) -> onnx.FunctionProto:
    header = f'<domain: "{MICROSOFT}", opset_import: ["" : {opset}]>\n'
    function: onnx.FunctionProto = onnx.parser.parse_function(header + _DEFINITIONS[op])
    return function
