"""What the installed onnxruntime can run on a CPU: asked once, never assumed."""

from __future__ import annotations

from functools import cache, partial

from fusionc.model.operators import canonical_domain
from fusionc.model.tensors import type_name
from fusionc.runtime.process import insist, request

_Key = tuple[str, str]  # domain and operator
_OPEN = 2**31 - 1  # "until the operator changes": such a kernel runs the version that it is for, and no later one


@cache
def _tables() -> tuple[
    dict[_Key, list[tuple[int, int, dict[str, list[str]]]]], dict[_Key, list[tuple[int, tuple[str, ...]]]]
]:
    """Of each operator its kernels (the first and last version, and which types each type parameter may be), and since
    which version its inputs have which type parameters."""
    kernels: dict[_Key, list[tuple[int, int, dict[str, list[str]]]]] = {}
    parameters: dict[_Key, list[tuple[int, tuple[str, ...]]]] = {}
    defined, known = insist(partial(request, "operators"))
    for domain, op, first, last, constraints in defined:
        kernels.setdefault((canonical_domain(domain), op), []).append((first, last, constraints))
    for domain, op, since, names in known:
        parameters.setdefault((canonical_domain(domain), op), []).append((since, names))
    return kernels, {key: sorted(versions) for key, versions in parameters.items()}


def is_known(op: str, domain: str, version: int) -> bool:
    """Whether the installed onnxruntime knows the operator in that version of its domain, with a kernel or without."""
    return any(since <= version for since, _ in _tables()[1].get((domain, op), ()))


@cache
def has_cpu_kernel(op: str, domain: str, version: int, *elem_types: int) -> bool:
    """Whether the installed onnxruntime has a CPU kernel of this operator and version that takes these elements.

    `elem_types` are those of the inputs, in order, 0 for one that is left out. One kernel must take all of them.
    """
    kernels, known = _tables()
    versions = [found for found in known.get((domain, op), ()) if found[0] <= version]
    if not versions:
        return False
    since, parameters = versions[-1]
    parameters += parameters[-1:] * len(elem_types)  # the last input may be there several times
    wanted = [(p, f"tensor({type_name(t)})") for p, t in zip(parameters, elem_types, strict=False) if t]
    return any(
        (first == since or first < since <= last < _OPEN)
        and all(name in constraints.get(parameter, (name,)) for parameter, name in wanted)
        for first, last, constraints in kernels.get((domain, op), ())
    )
