"""Questions about operators: their schemas and defaults, and whether they are pure, commutative, or
defined by other operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import onnx
import onnx.defs
from onnx import AttributeProto
from onnx_graphsurgeon import Node as SurgeonNode

from fusionc.operators.domains import MICROSOFT as MICROSOFT
from fusionc.operators.domains import TRADITIONAL
from fusionc.operators.facts import Trait, names_with
from fusionc.operators.randomness import RANDOM_OR_STATEFUL

KERNELS = "fusionc.gk"  # the domain of areas: functions with a generated kernel

# These operators say how a model is quantized. Their constants stay unchanged.
QUANTIZATION = names_with(Trait.QUANTIZES, Trait.DEQUANTIZES)
_NO_BODIES: Iterator[Any] = iter(())
# A Constant node is tested against this set only if its value cannot be read.
_NEVER_KNOWN = QUANTIZATION | {"Constant"}
_KNOWN_DOMAINS = frozenset({"", TRADITIONAL, MICROSOFT, "com.microsoft.nchwc", KERNELS})
COMMUTATIVE = names_with(Trait.COMMUTATIVE)
# Before opset 7 these operators broadcast only with the attribute `broadcast`, and the attribute
# `axis` may align the second operand.
ALIGNED_BEFORE_7 = names_with(Trait.LEGACY_AXIS)


def has_legacy_axis(node: Any) -> bool:
    """Whether a node of an old opset aligns its operands differently from numpy."""
    return (
        node.op in ALIGNED_BEFORE_7
        and node.graph.opset < 7
        and not {"axis", "broadcast"}.isdisjoint(node.attrs)
    )


def canonical_domain(domain: str) -> str:
    """The domain, with "" for both spellings of ONNX's own domain."""
    return "" if domain == "ai.onnx" else domain


def qualified(op: str, domain: str) -> str:
    """The name of an operator in lists and flags: with its domain, except for the standard
    domain.
    """
    return f"{domain}.{op}" if domain else op


def short_name(op: str, domain: str) -> str:
    """The name of an operator in messages: without the domains of ONNX and onnxruntime."""
    return qualified(op, "" if domain == MICROSOFT else domain)


def opsets_of(proto: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """The imported opset versions by domain. A model older than IR version 3 has no imports and
    means opset 1.
    """
    opsets: dict[str, int] = {}
    if isinstance(proto, onnx.ModelProto) and not proto.opset_import and proto.ir_version < 3:
        opsets[""] = 1
    for entry in proto.opset_import:
        domain = canonical_domain(entry.domain)
        opsets[domain] = max(entry.version, opsets.get(domain, 0))
    return opsets


@cache
def schema(op: str, domain: str, version: int) -> onnx.defs.OpSchema | None:
    """The operator's schema in this opset version. None if this version does not have the operator
    or has deprecated it.
    """
    if not onnx.defs.has(op, version, domain):
        return None
    newest = onnx.defs.get_schema(op, version, domain)
    return None if newest.deprecated else newest


def means_the_same(op: str, domain: str, one: int | None, other: int | None) -> bool:
    """Whether an operator is known to mean the same in two opset versions. If one version is None
    (its opset is not imported), the other version counts for both.
    """
    if one is None or other is None or one == other:
        return True
    schemas = [schema(op, domain, version) for version in (one, other)]
    return None not in schemas and len({s.since_version for s in schemas if s is not None}) == 1


def is_foreign(node: Any) -> bool:
    """Whether onnx has no schema for the operator of a node."""
    return schema(node.op, node.domain, node.graph.opset_of(node.domain)) is None


@cache
def attribute_default(op: str, domain: str, version: int, name: str) -> Any:
    """The default of an attribute in the operator's schema, or `None` if it has no default.

    onnxruntime also runs LayerNormalization at opsets before 17, in which ONNX does not define the
    operator. In such cases the newest schema counts.
    """
    known_schema = schema(op, domain, version) or schema(op, domain, onnx.defs.onnx_opset_version())
    known = {} if known_schema is None else known_schema.attributes
    return decode_attribute(known[name].default_value) if name in known else None


def is_composite(op: str, domain: str, version: int) -> bool:
    """Whether ONNX defines the operator as a function of other operators. A runtime without a
    kernel for the operator runs these operators instead.
    """
    known: Any = schema(op, domain, version)
    return bool(known is not None and (known.has_function or known.has_context_dependent_function))


def decode_attribute(attribute: AttributeProto, bodies: Iterator[Any] = _NO_BODIES) -> Any:
    """The attribute as a Python value: int, float, str (bytes if it is not UTF-8), a list of these,
    or else a proto. Subgraphs are taken from `bodies`, which has the order of the proto.
    """
    if attribute.ref_attr_name:
        return SurgeonNode.AttributeRef(attribute.ref_attr_name, attribute.type)
    if attribute.type == AttributeProto.GRAPH:
        return next(bodies)
    if attribute.type == AttributeProto.GRAPHS:
        return [next(bodies) for _ in attribute.graphs]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == AttributeProto.STRINGS:
        return [_text(v) for v in value]
    return _text(value) if attribute.type == AttributeProto.STRING else value


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def is_pure(node: Any) -> bool:
    """Whether the outputs of the node depend only on its inputs, and running the node has no side
    effect.

    Custom operators count as impure. A call of a model-local function is pure if all nodes of its
    body are pure.
    """
    if node.op in RANDOM_OR_STATEFUL:
        return False
    if node.is_op("Dropout") and not drops_nothing(node):
        return False
    if node.is_op("BatchNormalization") and node.attr("training_mode"):
        return False
    graphs = [*node.bodies, *filter(None, [node.function])]
    is_known = node.function is not None or node.domain in _KNOWN_DOMAINS
    return is_known and all(is_pure(inner) for graph in graphs for inner in graph.nodes)


def is_known(value: Any) -> bool:
    """Whether a value is computed only from constants. Dequantized weights do not count as known:
    folding them would lose the quantization.
    """
    pending = [value]
    seen = set()
    while pending:
        current = pending.pop()
        if current is None or current.is_constant or current in seen:
            continue
        seen.add(current)
        node = current.producer
        if node is None or node.domain != "" or node.op in _NEVER_KNOWN:
            return False
        if node.bodies or not is_pure(node):
            return False
        pending.extend(node.inputs)
    return True


def drops_nothing(node: Any) -> bool:
    """Whether a Dropout of any opset is the identity, because it is not in training mode or its
    ratio is 0.
    """
    opset = node.graph.opset
    if opset < 7:
        return bool(node.attr("is_test", 0))
    if opset < 12 or len(node.inputs) < 3 or node.inputs[2] is None:
        return True
    decisive = [value.constant() for value in node.inputs[1:3] if value is not None]
    return any(array is not None and not array.any() for array in decisive)
