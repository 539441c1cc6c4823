"""Find operators for which onnxruntime has a kernel at one opset and not at a newer opset."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from onnx import ModelProto, TensorProto

from fusionc.errors import UsageError
from fusionc.model.operators import canonical_domain, opsets_of, schema
from fusionc.model.tensors import type_name
from fusionc.protos import nodes_of
from fusionc.requested.target_opset.limits import OPTION
from fusionc.runtime.cpu_kernels import has_cpu_kernel, way_to_run
from fusionc.shapes.inference import typed_model

_TYPES = [type_ for type_ in TensorProto.DataType.values() if type_]
_INSTEAD = {
    "float32": "computes this operator in float between Casts",
    "parts": "runs the operators of its ONNX definition one by one",
}


class OperatorUse(NamedTuple):
    """An operator with the types of its inputs in a model. An unknown type is 0."""

    op: str
    types: tuple[int, ...]


class LostKernel(NamedTuple):
    """An operator for which onnxruntime does not have a kernel at a newer opset."""

    op: str
    since: int  # the first opset without a kernel
    instead: str  # what onnxruntime does instead

    def __str__(self) -> str:
        return (
            f"onnxruntime has no kernel for {self.op} of opset {self.since} and {self.instead}, "
            "which is slower: "
            f"--target_opset {self.since - 1} keeps it"
        )


def lost_kernels(model: ModelProto, version: int, folder: str) -> list[LostKernel]:
    """The kernels that onnxruntime has at the opset of the model and lacks at this newer version.
    The external data of the model is in `folder`. Raises UsageError if onnxruntime could not run an
    operator at all at the newer version.
    """
    old = opsets_of(model).get("", 0)
    lost = set[LostKernel]()
    for use in _suspicious(model, old, version, folder):
        way = _way(use, version)
        if way == "none":
            raise _missing(use, old, version)
        first = next(v for v in range(old + 1, version + 1) if _is_worse(use, old, v))
        lost.add(LostKernel(use.op, first, _INSTEAD[way]))
    return sorted(lost)


def loses_kernels(model: ModelProto, version: int, folder: str) -> bool:
    """Whether onnxruntime lacks a kernel at this opset that it now has for an operator of the
    model.
    """
    old = opsets_of(model).get("", 0)
    if not any(
        _loses(op, types, old, version) for op in _operators(model) for types in _each_type()
    ):
        return False
    return any(_loses(*use, old, version) for use in _uses(model, folder))


def latest_opset(model: ModelProto, newest: int, folder: str = "") -> int:
    """The newest opset, up to `newest`, at which onnxruntime runs each operator of a model no worse
    than at the model's own opset.
    """
    old = opsets_of(model).get("", 0)
    versions = range(newest, old, -1)
    return next(
        (v for v in versions if not any(True for _ in _suspicious(model, old, v, folder))), old
    )


def _suspicious(model: ModelProto, old: int, new: int, folder: str) -> Iterator[OperatorUse]:
    if any(
        _is_worse(OperatorUse(op, types), old, new)
        for op in _operators(model)
        for types in _each_type()
    ):
        yield from (use for use in sorted(_uses(model, folder)) if _is_worse(use, old, new))


def _operators(model: ModelProto) -> set[str]:
    """The standard operators of a model. They are checked first without types, because inferring
    types is slow.
    """
    return {node.op_type for node in nodes_of(model) if not canonical_domain(node.domain)}


def _uses(model: ModelProto, folder: str) -> set[OperatorUse]:
    nodes = [node for graph in typed_model(model, folder).graphs for node in graph.ordered()]
    return {
        OperatorUse(
            node.op, tuple(0 if value is None else value.elem_type for value in node.inputs)
        )
        for node in nodes
        if not node.domain and node.function is None
    }


def _each_type() -> Iterator[tuple[int, ...]]:
    """The possible types of an operator's first input. An empty tuple means any type."""
    yield ()
    yield from ((type_,) for type_ in _TYPES)


@cache
def _is_worse(use: OperatorUse, old: int, new: int) -> bool:
    if schema(use.op, "", old) is None or schema(use.op, "", new) is None:
        return False  # the operator no longer exists in onnx: the converter replaces it
    before = _way(use, old)
    after = _way(use, new)
    return before != after and (before == "kernel" or after == "none")


@cache
def _loses(op: str, types: tuple[int, ...], old: int, new: int) -> bool:
    return (
        _is_worse(OperatorUse(op, types), old, new)
        and _way(OperatorUse(op, types), old) == "kernel"
    )


def _way(use: OperatorUse, version: int) -> str:
    return way_to_run(use.op, "", version, use.types)


def _missing(use: OperatorUse, old: int, new: int) -> UsageError:
    last = max(v for v in range(old, new) if _way(use, v) != "none")
    newer = schema(use.op, "", new)
    assert newer is not None
    types = [type_name(type_) for type_ in dict.fromkeys(use.types) if type_]
    has_others = has_cpu_kernel(use.op, "", new)
    return UsageError(
        f"onnxruntime has no kernel for {use.op} of opset {newer.since_version}"
        + (f" that takes {', '.join(types)}" if has_others and types else ""),
        where=OPTION,
        hint=f"give at most {last}" if last > old else "leave the option out",
        code="E10001",
    )
