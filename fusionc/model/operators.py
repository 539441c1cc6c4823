"""Questions about operators: schemas, defaults, which ones are random, commutative, or made of
others.
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

# How a model is quantized is written in these: their constants stay as they are.
QUANTIZATION = names_with(Trait.QUANTIZES, Trait.DEQUANTIZES)
_NO_BODIES: Iterator[Any] = iter(())
_NEVER_KNOWN = QUANTIZATION | {"Constant"}  # one of a form that cannot be read
_KNOWN_DOMAINS = frozenset({"", TRADITIONAL, MICROSOFT, "com.microsoft.nchwc", KERNELS})
COMMUTATIVE = names_with(Trait.COMMUTATIVE)
# Before opset 7 these broadcast only if an attribute says so, and may align their second operand
# at an axis.
ALIGNED_BEFORE_7 = names_with(Trait.LEGACY_AXIS)


def has_legacy_axis(node: Any) -> bool:
    """Whether a node of an old opset aligns its operands in another way than numpy does."""
    return (
        node.op in ALIGNED_BEFORE_7
        and node.graph.opset < 7
        and not {"axis", "broadcast"}.isdisjoint(node.attrs)
    )


def canonical_domain(domain: str) -> str:
    """ONNX's own domain has two spellings."""
    return "" if domain == "ai.onnx" else domain


def qualified(op: str, domain: str) -> str:
    """The name of an operator in lists and flags, with its domain unless that is the standard
    one.
    """
    return f"{domain}.{op}" if domain else op


def short_name(op: str, domain: str) -> str:
    """The name of an operator for people, who know which ones are onnxruntime's."""
    return qualified(op, "" if domain == MICROSOFT else domain)


def opsets_of(proto: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """The imported operator sets. A model older than IR version 3 imports none and means the first
    one.
    """
    found: dict[str, int] = {}
    if isinstance(proto, onnx.ModelProto) and not proto.opset_import and proto.ir_version < 3:
        found[""] = 1
    for entry in proto.opset_import:
        domain = canonical_domain(entry.domain)
        found[domain] = max(entry.version, found.get(domain, 0))
    return found


@cache
def schema(op: str, domain: str, version: int) -> onnx.defs.OpSchema | None:
    """The operator's schema in that version of its operator set, or None if it has none (yet, or
    any more).
    """
    found = (
        onnx.defs.get_schema(op, version, domain) if onnx.defs.has(op, version, domain) else None
    )
    return None if found is None or found.deprecated else found


def means_the_same(op: str, domain: str, one: int | None, other: int | None) -> bool:
    """Whether an operator is known to mean the same in two versions of its operator set; None is a
    set that is not imported, which leaves the version to the other one.
    """
    if one is None or other is None or one == other:
        return True
    schemas = [schema(op, domain, version) for version in (one, other)]
    return None not in schemas and len({s.since_version for s in schemas if s is not None}) == 1


def is_foreign(node: Any) -> bool:
    """Whether onnx does not know the operator of a node."""
    return schema(node.op, node.domain, node.graph.opset_of(node.domain)) is None


@cache
def attribute_default(op: str, domain: str, version: int, name: str) -> Any:
    """The default of an attribute in the operator's schema, or None if it has none.

    onnxruntime takes LayerNormalization of opsets that do not have it yet: then the newest schema
    says what it means.
    """
    found = schema(op, domain, version) or schema(op, domain, onnx.defs.onnx_opset_version())
    known = {} if found is None else found.attributes
    return decode_attribute(known[name].default_value) if name in known else None


def is_composite(op: str, domain: str, version: int) -> bool:
    """Whether ONNX defines the operator by others: a runtime without a kernel for it runs those one
    by one.
    """
    found: Any = schema(op, domain, version)
    return bool(found is not None and (found.has_function or found.has_context_dependent_function))


def decode_attribute(attribute: AttributeProto, bodies: Iterator[Any] = _NO_BODIES) -> Any:
    """A Python value: int, float, str (bytes if it is not UTF-8), lists of these, or the proto of
    anything else. Subgraphs come from `bodies`, in the order of the proto.
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
    """Whether the node's outputs depend on its inputs alone and running it has no other effect.

    Custom operators are not known to be pure. A call of a model-local function is as pure as its
    body.
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
    """Whether a value depends on constants alone. Dequantized weights do not count: their form has
    a meaning.
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
    """Whether a Dropout is the identity: no training mode, or a ratio of 0, in any of the
    operator's four versions.
    """
    opset = node.graph.opset
    if opset < 7:
        return bool(node.attr("is_test", 0))
    if opset < 12 or len(node.inputs) < 3 or node.inputs[2] is None:
        return True
    decisive = [value.constant() for value in node.inputs[1:3] if value is not None]
    return any(array is not None and not array.any() for array in decisive)
