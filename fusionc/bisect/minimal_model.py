"""The smallest model on which a rewrite still goes wrong, for a bug report: a few nodes with small
weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import onnx
from onnx.numpy_helper import from_array, to_array

from fusionc.bisect.trials import Rewrite
from fusionc.disk.save import save
from fusionc.errors import FusioncError
from fusionc.job import Job
from fusionc.protos import copied
from fusionc.requested.requests import Requests
from fusionc.rewrite.log import PatternCount
from fusionc.verdict import verdict_on

_SMALL = 4096  # bytes; no need to cut anything down
_DIVISORS = (256, 128, 64, 32, 16, 8, 4, 2)
_SIZES = (1, 2, 3, 4, 8, 16)  # sizes that a larger dimension is cut to
_MOST_DIMENSIONS = 12  # dimensions that are cut one by one
_VECTOR = 16  # elements; the whole numbers in a smaller constant may be sizes


@dataclass(frozen=True)
class MinimalModel:
    """A small model on which a rewrite goes wrong."""

    model: onnx.ModelProto  # before the rewrite
    rewritten: onnx.ModelProto  # after it
    shown: str  # what is wrong; empty if neither way shows anything
    # a conversion with the job's passes shows it; if not, comparing the two does
    is_converted: bool


def minimal_model(job: Job, rewrite: Rewrite) -> MinimalModel | None:
    """The first of a rewrite's models that shows the difference, made smaller; None if it has no
    models.
    """
    alone = replace(
        job,
        requests=Requests(),
        shapes=None,
        left_out={},
        options=replace(job.options, target_opset=None, inputs=None, output_type=None),
    )
    for models in rewrite.models:
        for passes in ([rewrite.pass_], job.passes):
            converting = replace(alone, passes=passes)
            found = _converted(converting, models.before)
            if found is not None:
                return _cut_down(converting, found)
    own = [
        PatternCount(0, rewrite.pass_.kind, rewrite.pass_.name, rewrite.commit.pattern, effected=1)
    ]
    for models in rewrite.models:
        if shown := _difference(alone, models.before, models.after, own):
            return MinimalModel(models.before, models.after, shown, is_converted=False)
    return next(
        (MinimalModel(m.before, m.after, "", is_converted=False) for m in rewrite.models), None
    )


def _converted(job: Job, model: onnx.ModelProto) -> MinimalModel | None:
    """The model and its conversion, if that is wrong."""
    try:
        proto = copied(model)
        done = job.optimized(proto)
        shown = _difference(job, model, done.proto, done.counts) if done.log.count else ""
    except FusioncError:
        return None
    return MinimalModel(model, done.proto, shown, is_converted=True) if shown else None


def _difference(
    job: Job, reference: onnx.ModelProto, candidate: onnx.ModelProto, counts: Sequence[PatternCount]
) -> str:
    """How two models differ; empty if they do not, or do not run."""
    folder = job.options.source.parent
    destination = job.options.destination
    with save(reference, folder, destination) as a, save(candidate, folder, destination) as b:
        verdict = verdict_on(b.model, a.model, job, counts)
    return "" if verdict.is_right else verdict.summary


def _cut_down(job: Job, found: MinimalModel) -> MinimalModel:
    """The smallest model found that still shows the difference."""
    for divisor in _DIVISORS:
        fitting = {
            size: size // divisor for size in _dimensions(found.model) if size % divisor == 0
        }
        if fitting and (smaller := _smaller(job, found, fitting)):
            found = smaller
            break
    for size in _dimensions(found.model)[:_MOST_DIMENSIONS]:
        for wanted in (wanted for wanted in _SIZES if wanted < size):
            if smaller := _smaller(job, found, {size: wanted}):
                found = smaller
                break
    return found


def _smaller(job: Job, found: MinimalModel, sizes: Mapping[int, int]) -> MinimalModel | None:
    """The model with these sizes, if that makes it smaller and it still shows the difference."""
    if found.model.ByteSize() <= _SMALL:
        return None
    model = _cut(found.model, sizes)
    return _converted(job, model) if _is_consistent(model) else None


def _dimensions(model: onnx.ModelProto) -> list[int]:
    """The sizes above 1 of weights and inputs, and whole numbers that may be sizes, the largest
    first.
    """
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
    return is_whole and len(tensor.dims) <= 1 and prod(tensor.dims) <= _VECTOR


def _cut(model: onnx.ModelProto, sizes: Mapping[int, int]) -> onnx.ModelProto:
    """The model with other sizes; the beginnings of its weights are kept."""
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
    """Whether its shapes fit together, as far as onnx can tell, which is faster than running it."""
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        return False
    return True
