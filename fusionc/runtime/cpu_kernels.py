"""The kernels of the installed onnxruntime for a CPU: asked once, never assumed."""

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
# "until the operator changes": such a kernel runs the version that it is for, and no later one
_OPEN = 2**31 - 1


@cache
def _tables() -> tuple[
    dict[_Key, list[tuple[int, int, dict[str, list[str]]]]],
    dict[_Key, list[tuple[int, tuple[str, ...]]]],
]:
    """The kernels of each operator (the first and last version, and which types each type parameter
    may be), and since which version its inputs have which type parameters.
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
    """Whether the installed onnxruntime knows the operator in that version of its domain, with a
    kernel or without.
    """
    return any(since <= version for since, _ in _tables()[1].get((domain, op), ()))


@cache
def has_cpu_kernel(op: str, domain: str, version: int, *elem_types: int) -> bool:
    """Whether the installed onnxruntime has a CPU kernel of this operator and version for these
    elements.

    `elem_types` are those of the inputs, in order, 0 for one that is left out. One kernel must take
    all of them.
    """
    kernels, known = _tables()
    versions = [entry for entry in known.get((domain, op), ()) if entry[0] <= version]
    if not versions:
        return False
    since, parameters = versions[-1]
    parameters += parameters[-1:] * len(elem_types)  # the last input may be there several times
    wanted = [
        (p, f"tensor({type_name(t)})") for p, t in zip(parameters, elem_types, strict=False) if t
    ]
    return any(
        (first == since or first < since <= last < _OPEN)
        and all(name in constraints.get(parameter, (name,)) for parameter, name in wanted)
        for first, last, constraints in kernels.get((domain, op), ())
    )


def way_to_run(
    op: str, domain: str, version: int, elem_types: Sequence[int]
) -> Literal["kernel", "parts", "float32", "none"]:
    """How the installed onnxruntime runs an operator on a CPU: with a kernel, as the operators that
    define it, or between Casts to float32; "none" if it does not load a model that has it.

    `elem_types` are those of the inputs, 0 for one that is left out or unknown. Only float16 is
    cast.
    """
    wider = [TensorProto.FLOAT if type_ == TensorProto.FLOAT16 else type_ for type_ in elem_types]
    if has_cpu_kernel(op, domain, version, *elem_types):
        return "kernel"
    if _runs_as_parts(op, domain, version):
        return "parts"
    return "float32" if has_cpu_kernel(op, domain, version, *wider) else "none"


@cache
def _runs_as_parts(op: str, domain: str, version: int) -> bool:
    """Whether onnxruntime can take an operator apart: the parts of a definition must be the same at
    that opset.
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
    """What keeps onnxruntime from running an operator that a pass makes; "" if nothing does.

    `elem_types` are those of the inputs, None for one that is left out, 0 for one that is unknown.
    `is_new` if the operator takes the place of others: if it was there before, the pass need not
    care for its kernel.
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
    if has_cpu_kernel(op, domain, version, *elem_types):
        return ""
    names = dict.fromkeys(map(type_name, filter(None, elem_types)))
    return f"no CPU kernel for {op} of {', '.join(names)}"


def _needs_kernel(op: str, domain: str, version: int, elem_types: Sequence[int]) -> bool:
    """Whether an operator of no other domain is useless without a kernel; `elem_types` if known.

    A composite operator is: its parts are in the model already. For other operators onnxruntime
    computes float16 between two Casts.
    """
    is_strict = domain == "" and bool(elem_types) and TensorProto.FLOAT16 not in elem_types
    return is_strict or is_composite(op, domain, version)
