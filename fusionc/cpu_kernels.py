"""What the installed onnxruntime can run on a CPU: asked once, never assumed."""

from __future__ import annotations

from functools import cache

from fusionc.model.operators import canonical_domain
from fusionc.model.tensors import type_name


@cache
def _cpu_kernels() -> dict[tuple[str, str], list[tuple[int, int, dict[str, list[str]]]]]:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    found: dict[tuple[str, str], list[tuple[int, int, dict[str, list[str]]]]] = {}
    for kernel in get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            first, last = kernel.version_range
            key = (canonical_domain(kernel.domain), kernel.op_name)
            found.setdefault(key, []).append((first, last, dict(kernel.type_constraints)))
    return found


@cache
def _type_parameters() -> dict[tuple[str, str], list[tuple[int, tuple[str, ...]]]]:
    """Of each operator that onnxruntime knows: since which version its inputs have which type parameters."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    found: dict[tuple[str, str], list[tuple[int, tuple[str, ...]]]] = {}
    for known in get_all_operator_schema():
        parameters = tuple(parameter.typeStr for parameter in known.inputs)
        found.setdefault((canonical_domain(known.domain), known.name), []).append((known.since_version, parameters))
    return {key: sorted(versions) for key, versions in found.items()}


@cache
def has_cpu_kernel(op: str, domain: str, version: int, *elem_types: int) -> bool:
    """Whether the installed onnxruntime has a CPU kernel of this operator and version that takes these elements.

    `elem_types` are those of the inputs, in order, 0 for one that is left out. One kernel must take all of them.
    """
    versions = [parameters for since, parameters in _type_parameters().get((domain, op), ()) if since <= version]
    if not versions:
        return False
    parameters = versions[-1] + versions[-1][-1:] * len(elem_types)  # the last input may be there several times
    wanted = [(p, f"tensor({type_name(t)})") for p, t in zip(parameters, elem_types, strict=False) if t]
    return any(
        first <= version <= last and all(name in constraints.get(parameter, (name,)) for parameter, name in wanted)
        for first, last, constraints in _cpu_kernels().get((domain, op), ())
    )
