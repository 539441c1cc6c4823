"""Validate the nodes of a model: each must have inputs, outputs and attributes that its operator
has in the imported opset. onnxruntime checks the same for the operators that it knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from onnx import AttributeProto, NodeProto
from onnx.defs import OpSchema

from fusionc.model.operators import canonical_domain, schema
from fusionc.operators.facts import Trait, names_with

_INTERNAL = "__"  # the prefix of attributes that onnx itself adds to nodes
_TERM = r"[A-Za-z]*(\.\.\.[A-Za-z]*)?"
_EQUATION = re.compile(f"{_TERM}(,{_TERM})*(->{_TERM})?")
# These attributes must be 0 or 1. Operators and runtimes interpret other numbers in different ways.
_FLAGS = frozenset({
    "align_corners", "allowzero", "antialias", "broadcast", "ceil_mode", "count_include_pad",
    "detect_negative", "detect_positive", "exclude_outside", "exclusive", "input_forget",
    "interleaved", "inverse", "is_causal", "keepdims", "largest", "linear_before_reset",
    "noop_with_empty_axes", "onesided", "reverse",
    "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB",
})  # fmt: skip
_Single = OpSchema.FormalParameterOption.Single
_Variadic = OpSchema.FormalParameterOption.Variadic


class _Signature(NamedTuple):
    """The inputs, outputs and attributes that an operator may or must have."""

    inputs: range  # the possible numbers of inputs
    outputs: range  # the possible numbers of outputs
    single_inputs: frozenset[int]  # the indices of required inputs
    first_variadic: int  # the index of the first variadic input
    single_outputs: frozenset[int]  # the indices of required outputs
    attributes: Mapping[str, int]  # the types of attributes, by name
    required: frozenset[str]  # the names of required attributes

    def needs_input(self, at: int) -> bool:
        """Whether the input at this index must not be left out."""
        return at in self.single_inputs or at >= self.first_variadic

    def needs_output(self, at: int) -> bool:
        """Whether the output at this index must not be left out."""
        return at in self.single_outputs


def _type_of(attribute: OpSchema.Attribute) -> int:
    number: int = AttributeProto.AttributeType.Value(str(attribute.type).rpartition(".")[2])
    return number


@cache
def _signature(operator: str, domain: str, version: int) -> _Signature | None:
    known = schema(operator, domain, version)
    if known is None or known.deprecated:
        return None
    return _Signature(
        range(known.min_input, known.max_input + 1),
        range(known.min_output, known.max_output + 1),
        frozenset(i for i, parameter in enumerate(known.inputs) if parameter.option == _Single),
        next(
            (i for i, parameter in enumerate(known.inputs) if parameter.option == _Variadic),
            known.max_input,
        ),
        frozenset(i for i, parameter in enumerate(known.outputs) if parameter.option == _Single),
        {name: _type_of(attribute) for name, attribute in known.attributes.items()},
        frozenset(name for name, attribute in known.attributes.items() if attribute.required),
    )


def fault_of_call(node: NodeProto, opsets: Mapping[str, int]) -> str | None:
    """The fault of a node, as the rest of a sentence about the node. `None` if the node is valid,
    or if the opsets do not have its operator.

    A node without inputs and outputs counts as valid unless it is a Constant, because it does
    nothing and onnxruntime ignores it.
    """
    if not node.input and not node.output and node.op_type != "Constant":
        return None
    domain = canonical_domain(node.domain)
    signature = _signature(node.op_type, domain, opsets[domain]) if domain in opsets else None
    if signature is None:
        return None
    fault = _FAULTS.get(node.op_type)
    return (
        _fault_of_ports(node.input, signature.inputs, signature.needs_input, "inputs")
        or _fault_of_ports(node.output, signature.outputs, signature.needs_output, "outputs")
        or _fault_of_attributes(node.attribute, signature)
        or (fault(node) if fault else None)
    )


def _fault_of_ports(
    names: Sequence[str], counts: range, is_needed: Callable[[int], bool], kind: str
) -> str | None:
    """The fault in the inputs or the outputs of a node, or None."""
    if len(names) not in counts:
        return f"has {len(names)} {kind}, not {_count_text(counts)}"
    if "" in names and any(not name and is_needed(at) for at, name in enumerate(names)):
        return f"has {kind} without a name, which it needs"
    return None


def _fault_of_einsum(node: NodeProto) -> str | None:
    """The fault in the equation of an Einsum, or None. onnx's shape inference would never end for a
    faulty equation.
    """
    equation = next(
        (a.s.decode(errors="replace") for a in node.attribute if a.name == "equation" and a.s), ""
    )
    return (
        None
        if _EQUATION.fullmatch(equation.replace(" ", ""))
        else f"has the equation {equation!r}, which is not valid"
    )


def _fault_of_split(node: NodeProto) -> str | None:
    """The fault of a Split, or None. If a Split has more outputs than `num_outputs`, onnx and
    onnxruntime crash.
    """
    count = _number(node, "num_outputs", len(node.output))
    return (
        f"has {len(node.output)} outputs, but num_outputs is {count}"
        if count < len(node.output)
        else None
    )


def _fault_of_group(node: NodeProto) -> str | None:
    group = _number(node, "group", 1)
    return None if group > 0 else f"has {group} groups"


def _number(node: NodeProto, name: str, default: int) -> int:
    """The value of an attribute. `default` if it is missing, or if it refers to an attribute of a
    function.
    """
    return next((a.i for a in node.attribute if a.name == name and not a.ref_attr_name), default)


_FAULTS = {
    "Einsum": _fault_of_einsum,
    "Split": _fault_of_split,
    **dict.fromkeys(names_with(Trait.CONVOLUTION), _fault_of_group),
}


def _count_text(counts: range) -> str:
    if len(counts) == 1:
        return str(counts[0])
    return f"{counts[0]} or more" if counts[-1] > 1 << 20 else f"{counts[0]} to {counts[-1]}"


def _fault_of_attributes(attributes: Iterable[AttributeProto], signature: _Signature) -> str | None:
    names = [attribute.name for attribute in attributes]
    for attribute in attributes:
        expected = signature.attributes.get(attribute.name)
        if expected is None:
            if not attribute.name.startswith(_INTERNAL):
                return f"has an attribute {attribute.name!r}, which its operator does not have"
        elif attribute.type != expected:
            actual, right = (
                AttributeProto.AttributeType.Name(number) for number in (attribute.type, expected)
            )
            return f"has an attribute {attribute.name!r} of type {actual}, not {right}"
        elif attribute.name in _FLAGS and attribute.i not in (0, 1) and not attribute.ref_attr_name:
            return f"has an attribute {attribute.name!r} that is {attribute.i}, neither 0 nor 1"
    missing = sorted(signature.required.difference(names))
    if missing:
        return f"lacks the attribute {missing[0]!r}, which its operator needs"
    return f"has two attributes {names[0]!r}" if len(set(names)) < len(names) else None
