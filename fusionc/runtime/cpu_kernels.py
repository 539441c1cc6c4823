"""The CPU kernels of the installed onnxruntime. onnxruntime is asked for its tables only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

from onnx import FunctionProto, TensorProto

from fusionc.model.functions import fits
from fusionc.model.operators import MICROSOFT, canonical_domain, is_composite, schema
from fusionc.model.tensors import type_name
from fusionc.runtime.process import insist, request

_Key = tuple[str, str]  # domain and operator
# onnxruntime gives this "last version" to kernels that have no end. Such a kernel only runs the
# definition of the operator that is valid at the kernel's first version, until ONNX changes it.
_OPEN = 2**31 - 1


@dataclass(frozen=True, order=True)
class _Definition:
    """An operator from one version of its domain on."""

    since: int
    inputs: tuple[str, ...]  # the type parameters of its inputs
    outputs: tuple[str, ...]
    halves: tuple[str, ...]  # the type parameters that may be float16


@dataclass(frozen=True)
class Float16Ports:
    """Which inputs and outputs of an operator may be float16. The last entry of each tuple also
    applies to all further inputs or outputs, because the last one may be variadic.
    """

    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]

    def takes(self, position: int) -> bool:
        """Whether the input at this position may be float16."""
        return self.inputs[min(position, len(self.inputs) - 1)]

    def makes(self, position: int) -> bool:
        """Whether the output at this position is float16 if the inputs are."""
        return self.outputs[min(position, len(self.outputs) - 1)]


@cache
def _tables() -> tuple[
    dict[_Key, list[tuple[int, int, dict[str, list[str]]]]], dict[_Key, list[_Definition]]
]:
    """Two tables by operator. The first has the kernels: first version, last version, and the
    allowed types of each type parameter. The second has the operator's definitions, the oldest
    first.
    """
    kernels: dict[_Key, list[tuple[int, int, dict[str, list[str]]]]] = {}
    definitions: dict[_Key, list[_Definition]] = {}
    defined, known = insist(partial(request, "operators"))
    for domain, op, first, last, constraints in defined:
        kernels.setdefault((canonical_domain(domain), op), []).append((first, last, constraints))
    for domain, op, *details in known:
        definition = _Definition(*details)
        definitions.setdefault((canonical_domain(domain), op), []).append(definition)
    return kernels, {key: sorted(versions) for key, versions in definitions.items()}


def _definition(op: str, domain: str, version: int) -> _Definition | None:
    known = _tables()[1].get((domain, op), ())
    return next((one for one in reversed(known) if one.since <= version), None)


@cache
def float16_ports(op: str, domain: str, version: int) -> Float16Ports | None:
    """Which inputs and outputs of an operator may be float16. None if onnxruntime does not know the
    operator, or if none of its inputs may be float16. An output may be float16 only if it has the
    type of an input.
    """
    definition = _definition(op, domain, version)
    if definition is None or not set(definition.inputs) & set(definition.halves):
        return None
    inputs = tuple(name in definition.halves for name in definition.inputs)
    bound = set(definition.inputs) & set(definition.halves)
    return Float16Ports(inputs, tuple(name in bound for name in definition.outputs) or (False,))


def has_operator(op: str, domain: str, version: int) -> bool:
    """Whether the installed onnxruntime knows the operator in this version of its domain. It may
    know an operator without having a kernel.
    """
    return _definition(op, domain, version) is not None


@cache
def has_cpu_kernel(op: str, domain: str, version: int, *elem_types: int) -> bool:
    """Whether the installed onnxruntime has a CPU kernel of this operator, version and element
    types.

    `elem_types` are the types of the inputs in order; 0 stands for an input that is left out. One
    kernel must accept all these types.
    """
    kernels, _ = _tables()
    definition = _definition(op, domain, version)
    if definition is None:
        return False
    since = definition.since
    # the last input may be variadic
    parameters = definition.inputs + definition.inputs[-1:] * len(elem_types)
    required = [
        (p, f"tensor({type_name(t)})") for p, t in zip(parameters, elem_types, strict=False) if t
    ]
    return any(
        (first == since or first < since <= last < _OPEN)
        and all(name in constraints.get(parameter, (name,)) for parameter, name in required)
        for first, last, constraints in kernels.get((domain, op), ())
    )


def way_to_run(
    op: str, domain: str, version: int, elem_types: Sequence[int]
) -> Literal["kernel", "parts", "float32", "none"]:
    """How the installed onnxruntime runs an operator on a CPU: "kernel", "parts" (it runs the
    operators that define this operator), or "float32" (it computes a float16 operator in float32
    between Casts). "none" if onnxruntime does not load a model with the operator.

    `elem_types` are the types of the inputs; 0 stands for an input that is left out or whose type
    is unknown.
    """
    wider = [TensorProto.FLOAT if type_ == TensorProto.FLOAT16 else type_ for type_ in elem_types]
    if has_cpu_kernel(op, domain, version, *elem_types):
        return "kernel"
    if _runs_as_parts(op, domain, version):
        return "parts"
    return "float32" if has_cpu_kernel(op, domain, version, *wider) else "none"


@cache
def _runs_as_parts(op: str, domain: str, version: int) -> bool:
    """Whether onnxruntime can run an operator by running the operators of its definition: these
    must mean the same at this opset as in the definition.
    """
    operator: Any = schema(op, domain, version)
    if not is_composite(op, domain, version) or operator.has_context_dependent_function:
        return is_composite(op, domain, version)
    versions = [known for known in operator.function_opset_versions if known <= version]
    if not versions:
        return False
    body = FunctionProto.FromString(operator.get_function_with_opset_version(max(versions)))
    return fits(body, {"": version})


def lack_of_kernel(
    op: str, domain: str, version: int, elem_types: Sequence[int | None], is_new: bool
) -> str:
    """Why onnxruntime cannot run an operator that a pass makes. "" if it can. Some operators of
    float16 lack a kernel and still run: onnxruntime computes them in float32, between two Casts.

    `elem_types` are the types of the inputs: None for an input that is left out, and 0 for an
    unknown type. `is_new` says that the operator replaces other operators. If it replaces a node of
    the same operator, a missing kernel does not matter.
    """
    present = [type_ for type_ in elem_types if type_ is not None]
    is_known = bool(present) and all(present)
    known = present if is_known else []
    if domain != MICROSOFT and not (is_new and _needs_kernel(op, domain, version, known)):
        return ""
    if not is_known:
        return "the element type is unknown"
    return _lack_of_known(op, domain, version or 1, [type_ or 0 for type_ in elem_types])


def _lack_of_known(op: str, domain: str, version: int, elem_types: Sequence[int]) -> str:
    is_half = domain == MICROSOFT and TensorProto.FLOAT16 in elem_types
    ways = ("kernel", "float32") if is_half else ("kernel",)
    if way_to_run(op, domain, version, elem_types) in ways:
        return ""
    names = dict.fromkeys(map(type_name, filter(None, elem_types)))
    return f"no CPU kernel for {op} of {', '.join(names)}"


def _needs_kernel(op: str, domain: str, version: int, elem_types: Sequence[int]) -> bool:
    """Whether an operator is useless without a kernel. The operator is not one of com.microsoft.
    `elem_types` is empty if types are unknown.

    A composite operator needs a kernel: without one, onnxruntime would run the same operators that
    a pass has just replaced. Other operators need a kernel except for float16, which onnxruntime
    can compute in float32 between two Casts.
    """
    is_strict = domain == "" and bool(elem_types) and TensorProto.FLOAT16 not in elem_types
    return is_strict or is_composite(op, domain, version)
