"""The CPU kernels of the installed onnxruntime. Their tables are requested from it only once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Literal

from onnx import FunctionProto, TensorProto

from fusionc.model.functions import fits
from fusionc.model.operators import MICROSOFT, canonical_domain, is_composite, schema
from fusionc.model.tensors import type_name
from fusionc.runtime.process import insist, request

_Key = tuple[str, str]  # domain and operator
# onnxruntime's "last version" of a kernel that is valid until ONNX changes its operator. Such a
# kernel only runs the definition of the operator that is valid at the kernel's first version.
_OPEN = 2**31 - 1


@cache
def _tables() -> tuple[
    dict[_Key, list[tuple[int, int, dict[str, list[str]]]]],
    dict[_Key, list[tuple[int, tuple[str, ...]]]],
]:
    """Two tables by operator. The first has the kernels: first version, last version, and the
    allowed types of each type parameter. The second has the type parameters of the inputs, and the
    version from which they are valid.
    """
    kernels: dict[_Key, list[tuple[int, int, dict[str, list[str]]]]] = {}
    parameters: dict[_Key, list[tuple[int, tuple[str, ...]]]] = {}
    defined, known = insist(partial(request, "operators"))
    for domain, op, first, last, constraints in defined:
        kernels.setdefault((canonical_domain(domain), op), []).append((first, last, constraints))
    for domain, op, since, names in known:
        parameters.setdefault((canonical_domain(domain), op), []).append((since, names))
    return kernels, {key: sorted(versions) for key, versions in parameters.items()}


def has_operator(op: str, domain: str, version: int) -> bool:
    """Whether the installed onnxruntime knows the operator in this version of its domain. It may
    know an operator without having a kernel.
    """
    return any(since <= version for since, _ in _tables()[1].get((domain, op), ()))


@cache
def has_cpu_kernel(op: str, domain: str, version: int, *elem_types: int) -> bool:
    """Whether the installed onnxruntime has a CPU kernel of this operator, version and element
    types.

    `elem_types` are the types of the inputs in order; 0 stands for an input that is left out. One
    kernel must accept all these types.
    """
    kernels, known = _tables()
    versions = [entry for entry in known.get((domain, op), ()) if entry[0] <= version]
    if not versions:
        return False
    since, parameters = versions[-1]
    parameters += parameters[-1:] * len(elem_types)  # the last input may be variadic
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
    """Why onnxruntime cannot run an operator that a pass makes. "" if it can run the operator. It
    computes operators of float16 that lack a kernel in float32, between two Casts.

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
