"""A minimal model for a bug report: a few nodes with small weights that show a wrong rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import onnx
from onnx.numpy_helper import from_array, to_array

from fusionc.attempt.asked_model import ReferenceModel
from fusionc.attempt.attempt import LeftOut, attempt
from fusionc.attempt.conversion_plan import ConversionPlan
from fusionc.attempt.verdict import verdict_on
from fusionc.bisect.trials import Rewrite
from fusionc.disk.save import save
from fusionc.errors import FusioncError
from fusionc.protos import copied
from fusionc.requested.requests import Requests
from fusionc.rewrite.log import PatternCount

_SMALL = 4096  # bytes of a model that is not reduced any further
_DIVISORS = (256, 128, 64, 32, 16, 8, 4, 2)
_SIZES = (1, 2, 3, 4, 8, 16)  # sizes to which a larger dimension is reduced, the first that works
_MAX_DIMENSIONS = 12  # the most dimensions that are reduced one by one
_MAX_VECTOR = 16  # the most elements of a constant whose integers may be sizes


@dataclass(frozen=True)
class MinimalModel:
    """A small model on which a rewrite goes wrong."""

    model: onnx.ModelProto  # before the rewrite
    rewritten: onnx.ModelProto  # after the rewrite
    shown: str  # how the two models differ; empty if no difference could be reproduced
    # whether a conversion of `model` with some of the plan's passes reproduces the error;
    # otherwise, only a comparison of the two models shows it
    is_converted: bool


def minimal_model(plan: ConversionPlan, rewrite: Rewrite) -> MinimalModel | None:
    """A small model that shows the error of a rewrite. `None` if the rewrite has no models.

    The first of the rewrite's models that shows the error when it is converted is reduced in size.
    If none does, the first one whose two forms differ, and otherwise the first one, is returned as
    it is.
    """
    alone = replace(plan, requests=Requests(), options=replace(plan.options, inputs=None))
    for models in rewrite.models:
        for passes in ((rewrite.pass_,), plan.passes):
            converting = replace(alone, passes=passes)
            minimal = _convert(converting, models.before)
            if minimal is not None:
                return _cut_down(converting, minimal)
    own = [
        PatternCount(0, rewrite.pass_.kind, rewrite.pass_.name, rewrite.commit.pattern, effected=1)
    ]
    for models in rewrite.models:
        if error := _difference(alone, models.before, models.after, own):
            return MinimalModel(models.before, models.after, error, is_converted=False)
    return next(
        (MinimalModel(m.before, m.after, "", is_converted=False) for m in rewrite.models), None
    )


def _convert(plan: ConversionPlan, model: onnx.ModelProto) -> MinimalModel | None:
    """The model and its conversion. `None` if the conversion is right, or fails."""
    try:
        proto = copied(model)
        done = attempt(plan, proto, LeftOut())
        error = _difference(plan, model, done.proto, done.counts) if done.log.count else ""
    except FusioncError:
        return None
    return MinimalModel(model, done.proto, error, is_converted=True) if error else None


def _difference(
    plan: ConversionPlan,
    reference: onnx.ModelProto,
    candidate: onnx.ModelProto,
    counts: Sequence[PatternCount],
) -> str:
    """How two models differ. Empty if they compute the same or cannot be run."""
    folder = plan.options.source.parent
    destination = plan.options.destination
    with save(reference, folder, destination) as a, save(candidate, folder, destination) as b:
        verdict = verdict_on(b.model, ReferenceModel(a.model, sizes=None), plan, counts)
    return "" if verdict.is_right else verdict.summary


def _cut_down(plan: ConversionPlan, minimal: MinimalModel) -> MinimalModel:
    """A smaller model that still shows the error. First, all dimensions are divided by the same
    number; then single dimensions are reduced.
    """
    for divisor in _DIVISORS:
        divided = {
            size: size // divisor for size in _dimensions(minimal.model) if size % divisor == 0
        }
        if divided and (smaller := _smaller(plan, minimal, divided)):
            minimal = smaller
            break
    for size in _dimensions(minimal.model)[:_MAX_DIMENSIONS]:
        for reduced in (reduced for reduced in _SIZES if reduced < size):
            if smaller := _smaller(plan, minimal, {size: reduced}):
                minimal = smaller
                break
    return minimal


def _smaller(
    plan: ConversionPlan, minimal: MinimalModel, sizes: Mapping[int, int]
) -> MinimalModel | None:
    """The model after each size that is a key of `sizes` is replaced. `None` if the model was small
    enough before, or if the smaller model does not show the error.
    """
    if minimal.model.ByteSize() <= _SMALL:
        return None
    model = _cut(minimal.model, sizes)
    return _convert(plan, model) if _is_consistent(model) else None


def _dimensions(model: onnx.ModelProto) -> list[int]:
    """The different sizes above 1 in weights, inputs and small integer constants, largest first."""
    sizes = {dim for tensor in model.graph.initializer for dim in tensor.dims}
    sizes |= {
        dim.dim_value for value in model.graph.input for dim in value.type.tensor_type.shape.dim
    }
    sizes |= {
        int(n)
        for tensor in model.graph.initializer
        if _may_be_sizes(tensor)
        for n in to_array(tensor).flat
    }
    return sorted((size for size in sizes if size > 1), reverse=True)


def _may_be_sizes(tensor: onnx.TensorProto) -> bool:
    is_whole = tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
    return is_whole and len(tensor.dims) <= 1 and prod(tensor.dims) <= _MAX_VECTOR


def _cut(model: onnx.ModelProto, sizes: Mapping[int, int]) -> onnx.ModelProto:
    """The model after each size that is a key of `sizes` is replaced. Weights keep their first
    elements.
    """
    cut = copied(model)
    for value in cut.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value in sizes:
                dim.dim_value = sizes[dim.dim_value]
    for value in cut.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    for tensor in cut.graph.initializer:
        array = to_array(tensor)
        array = array[tuple(slice(sizes.get(size, size)) for size in array.shape)]
        if _may_be_sizes(tensor):
            array = np.array([sizes.get(int(n), n) for n in array.flat], array.dtype).reshape(
                array.shape
            )
        tensor.CopyFrom(from_array(np.ascontiguousarray(array).reshape(array.shape), tensor.name))
    return cut


def _is_consistent(model: onnx.ModelProto) -> bool:
    """Whether the shapes fit together, according to onnx's shape inference. A run would take
    longer.
    """
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        return False
    return True
