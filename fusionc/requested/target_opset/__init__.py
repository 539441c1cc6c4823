"""Raise a model to a newer opset with onnx's version converter. The converter's mistakes are
corrected, and everything that need not change stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import ModelProto

from fusionc.disk.onnx_checker import fault_of
from fusionc.errors import UsageError
from fusionc.model.functions import inlined, taken_names
from fusionc.model.operators import canonical_domain, opsets_of
from fusionc.protos import bodies_of, inputs_to_feed, light_copy
from fusionc.requested.target_opset.advice import opset_advice, waiting_in_result
from fusionc.requested.target_opset.converter import Converter
from fusionc.requested.target_opset.limits import OPTION, NewerAlready, newest_opset, raising_error
from fusionc.requested.target_opset.lost_kernels import (
    LostKernel,
    latest_opset,
    loses_kernels,
    lost_kernels,
)
from fusionc.requested.target_opset.raised_functions import inline_raised
from fusionc.requested.target_opset.unknown import (
    hide_unknown,
    is_unknown,
    require_same_operators,
)
from fusionc.requested.target_opset.value_types import drop_contradictions, types_everywhere

__all__ = [
    "LostKernel",
    "NewerAlready",
    "latest_opset",
    "loses_kernels",
    "newest_opset",
    "opset_advice",
    "raise_opset",
    "waiting_in_result",
]


def raise_opset(
    model: ModelProto,
    version: int,
    folder: str = "",
    tell: Callable[[LostKernel], None] = lambda _: None,
) -> ModelProto:
    """The model at this version of the standard opset; the model itself if it already has this
    version.

    The external data of the model is in `folder`. Calls of model-local functions are inlined.
    `tell` is called with each kernel that onnxruntime lacks at this version. Raises UsageError if
    the version is older than the model's or newer than onnxruntime accepts, or if onnxruntime
    cannot run an operator at this version. Raises FusioncError if onnx cannot convert an operator.
    """
    current = opsets_of(model).get("", 0)
    if version == current or not current:
        return model
    _require_raisable(model, current, version)
    model = inlined(model)
    imports = [entry for entry in model.opset_import if canonical_domain(entry.domain)]
    require_same_operators(model.graph.node, current, version)
    for lost in lost_kernels(model, version, folder):
        tell(lost)
    before = hide_unknown(light_copy(model), current)
    types = drop_contradictions(model.graph, before)
    if any(bodies_of(node) or is_unknown(node, current) for node in model.graph.node):
        types = {**types_everywhere(model, folder), **types}
    names = taken_names(model)
    Converter(names, imports, current, version).graph(model.graph, types)
    _declare_version(model, version)
    if model.functions:
        inline_raised(model, version, names)
    fault = _fault_of(model, version)
    if fault is not None and fault_of(before) is None:
        raise raising_error(current, version, fault)
    return model


def _require_raisable(model: ModelProto, current: int, version: int) -> None:
    """Raise UsageError if this version is older than the model's (`current`) or newer than
    onnxruntime accepts, and FusioncError if the model has training information.
    """
    if version < current:
        raise NewerAlready(
            f"the model's opset is already {current}, and fusionc cannot lower it",
            where=OPTION,
            hint=f"give {current} to {newest_opset()}, or leave the option out",
            code="E10001",
        )
    if version > newest_opset():
        raise UsageError(
            f"the installed onnxruntime runs models up to opset {newest_opset()}, not {version}",
            where=OPTION,
            hint=f"give at most {newest_opset()}",
            code="E10001",
        )
    if model.training_info:
        raise raising_error(current, version, "it has training information")


def _declare_version(model: ModelProto, version: int) -> None:
    """Declare this opset version, and raise the IR version as far as the opset requires."""
    # Before IR version 4 every initializer had to be an input. At a newer IR version callers could
    # feed such an input other values, so these inputs are removed.
    if model.ir_version < 4:
        callers = inputs_to_feed(model.graph)
        del model.graph.input[:]
        model.graph.input.extend(callers)
    for entry in model.opset_import:
        if not canonical_domain(entry.domain):
            entry.version = version
    least = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", version)])
    model.ir_version = max(model.ir_version, least)


def _fault_of(raised: ModelProto, version: int) -> str | None:
    """The complaint of onnx.checker about the raised model; None if it has none. After a first
    complaint, declared types that contradict onnx's inference are removed, and the check is
    repeated.
    """
    light = hide_unknown(light_copy(raised), version)
    if fault_of(light) is None:
        return None
    drop_contradictions(raised.graph, light)  # at the newer opset onnx may infer more types
    return fault_of(light)
