"""Find out whether the result of another optimizer is wrong, and why, and whether it is slower than
a given result.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from fusionc.errors import FusioncError
from fusionc.operators.randomness import RANDOM_OR_STATEFUL
from fusionc.protos import inputs_to_feed, nodes_of, reads_of, tensors_of
from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify import verify

Array = NDArray[Any]
Feeds = dict[str, Array]
Run = Callable[[Feeds], list[Any]]
SPECIAL = (1e-9, 0.99999, -1e-9, 0.0, 1.0, 1e-30, 7e4, -2.0, np.nan, np.inf)
SIZE = 2  # the size of dynamic dimensions
TOGETHER = (1e3, -1e5)  # values for up to three inputs at once
# the size of dynamic dimensions for measuring times, and the number of runs
LARGE_SIZE = 32
ROUNDS = 40
# limits for onnx's slow evaluator
FEW_NODES = 64
FEW_ELEMENTS = 100_000
MOST_CONSTANTS = 16
STRINGS = {"O", "U"}
TRAINING_MODE = 14  # the opset from which BatchNormalization states whether it is in training mode
# operators whose results for 0 and −0 may have either sign, because the standard does not define it
SUMS_AND_MAXIMA = {
    *(
        "Conv",
        "ConvTranspose",
        "Gemm",
        "MatMul",
        "AveragePool",
        "GlobalAveragePool",
        "BatchNormalization",
    ),
    *("Relu", "Clip", "Max", "Min", "MaxPool"),
}
BESIDE = {
    "Add",
    "Mul",
    "Pad",
    "Constant",
    "Flatten",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
}  # types without signs


def fault(reference: Path, model: ModelProto, result: Path) -> str:
    """Why the file `result` is not a correct optimization of the model in the file `reference`.
    Empty if it may be correct.
    """
    made = onnx.load(result)
    return _changed(model, made) or _different(reference, model, made, result)


def is_run(reference: Path) -> bool:
    """Whether onnxruntime runs the model. If not, the correct outputs are unknown."""
    return verify(reference, reference, seeds=(0,), levels=()).status == "equal"


def _changed(model: ModelProto, made: ModelProto) -> str:
    """How the interface or the operators differ from the model's."""
    return (
        _missing("input", model.graph.input, made.graph.input)
        or _missing("output", model.graph.output, made.graph.output)
        or _fixed_size(model, made)
        or _foreign_operators(model, made)
    )


def _missing(kind: str, ours: Iterable[ValueInfoProto], theirs: Iterable[ValueInfoProto]) -> str:
    kept = {value.name for value in theirs}
    missing = [value.name for value in ours if value.name not in kept]
    return f"the {kind} {missing[0]} is gone" if missing else ""


def _fixed_size(model: ModelProto, made: ModelProto) -> str:
    shapes = {value.name: value.type.tensor_type.shape.dim for value in made.graph.input}
    for value in model.graph.input:
        for ours, theirs in zip(value.type.tensor_type.shape.dim, shapes[value.name], strict=False):
            if not ours.HasField("dim_value") and theirs.HasField("dim_value"):
                what = f"the dynamic size {ours.dim_param} of the input {value.name}"
                return f"{what} is {theirs.dim_value} now"
    return ""


def _foreign_operators(model: ModelProto, made: ModelProto) -> str:
    known = {node.domain for node in nodes_of(model)} | {"", "ai.onnx"}
    if new := {node.domain for node in nodes_of(made)} - known:
        return f"operators of {', '.join(sorted(new))}, which not every runtime has"
    drawn, kept = (
        Counter(n.op_type for n in nodes_of(m) if n.op_type in RANDOM_OR_STATEFUL)
        for m in (model, made)
    )
    if gone := drawn - kept:
        return f"{', '.join(gone)} is gone, after which others draw other numbers"
    return ""


def _different(reference: Path, model: ModelProto, made: ModelProto, result: Path) -> str:
    for ours, theirs in (
        (model.graph.input, made.graph.input),
        (model.graph.output, made.graph.output),
    ):
        del theirs[:]  # an inferred shape in place of an unknown one is allowed
        theirs.extend(ours)
    onnx.save(made, result)
    try:
        found = verify(reference, result)
    except FusioncError as error:
        return str(error)
    if found.status != "equal":
        return found.summary if found.status == "different" else ""
    return _different_at_edges(reference, model, made, result)


@closes_runners
def _different_at_edges(reference: Path, model: ModelProto, made: ModelProto, result: Path) -> str:
    """The difference if one input has special numbers, or negated constants of the model, and the
    other inputs are 0.
    """
    samples = list(_samples(model))
    names = [value.name for value in model.graph.output]
    operators = {node.op_type for node in nodes_of(model)}
    has_signs = not (operators & SUMS_AND_MAXIMA and operators <= SUMS_AND_MAXIMA | BESIDE)
    size = max((array.size for _, feeds in samples for array in feeds.values()), default=0)
    standard = None if size > FEW_ELEMENTS else _evaluators(model, made, names)
    first = Runner(reference)
    second = Runner(result)
    found = _compared("onnxruntime", first.run, second.run, samples, names, has_signs)
    if found and not (standard and _is_standard(found.feeds, second.run, standard[0])):
        return found.why
    if standard and (found := _compared("onnx's evaluator", *standard, samples, names, has_signs)):
        return found.why
    return ""


def _evaluators(model: ModelProto, made: ModelProto, names: list[str]) -> tuple[Run, Run] | None:
    """Both models in onnx's own evaluator, if it supports their operators and is not too slow."""
    operators = [node.op_type for node in nodes_of(model)]
    mixes_statistics = "BatchNormalization" in operators and _opset(model) < TRAINING_MODE
    drops_nan = "AveragePool" in operators
    if mixes_statistics or drops_nan or len(operators) > FEW_NODES:
        return None
    try:
        ours = ReferenceEvaluator(_in_order(model))
        theirs = ReferenceEvaluator(_in_order(made))
    except Exception:  # an operator that the evaluator lacks
        return None
    return (lambda feeds: ours.run(names, feeds)), (lambda feeds: theirs.run(names, feeds))


def _opset(model: ModelProto) -> int:
    return max(
        (opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")),
        default=1,
    )


def _is_standard(feeds: Feeds, result: Run, evaluator: Run) -> bool:
    """Whether the result, run by onnxruntime, follows the standard for this model. onnxruntime may
    compute float16 in float32, but only up to a Cast of the model, even if the Cast changes nothing
    and was removed.
    """
    try:
        with np.errstate(all="ignore"):
            return not any(map(_difference, evaluator(feeds), result(feeds)))
    except Exception:  # the evaluator does not run the model
        return False


def _in_order(model: ModelProto) -> ModelProto:
    """The model with its nodes in topological order, which onnx's evaluator needs."""
    waiting = list(model.graph.node)
    nodes = list[onnx.NodeProto]()
    while waiting:
        missing = {name for node in waiting for name in node.output}
        ready = [node for node in waiting if not missing & reads_of(node)]
        nodes += ready
        waiting = [node for node in waiting if node not in ready] if ready else []
    ordered = ModelProto()
    ordered.CopyFrom(model)
    del ordered.graph.node[:]
    ordered.graph.node.extend(nodes)
    return ordered


@dataclass
class Found:
    """Why two models differ, and the inputs that show it."""

    why: str
    feeds: Feeds


def _compared(
    engine: str,
    first: Run,
    second: Run,
    samples: list[tuple[str, Feeds]],
    names: list[str],
    has_signs: bool,
) -> Found | None:
    for label, feeds in samples:
        try:
            with np.errstate(all="ignore"):
                expected = first(feeds)
                again = first(feeds)
        except Exception:  # no sample was found for this model
            continue
        if any(map(_difference, expected, again)):  # the model draws random numbers
            return None
        try:
            with np.errstate(all="ignore"):
                got = second(feeds)
        except Exception as error:
            return Found(f"in {engine}, with {label}: {error}", feeds)
        for name, ours, theirs in zip(names, expected, got, strict=True):
            if why := _difference(ours, theirs, has_signs):
                return Found(f"in {engine}, with {label}, {name} is {why}", feeds)
    return None


def _difference(ours: Any, theirs: Any, has_signs: bool = False) -> str:
    if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray):
        return ""
    kinds = {array.dtype.kind for array in (ours, theirs)}
    if ours.shape != theirs.shape or (ours.dtype != theirs.dtype and not kinds <= STRINGS):
        return f"{theirs.dtype}{list(theirs.shape)} for {ours.dtype}{list(ours.shape)}"
    if ours.dtype.kind != "f":
        wrong = ours != theirs
    else:
        finite = np.abs(ours[np.isfinite(ours)]).max(initial=0)
        near = np.isclose(theirs, ours, rtol=0.02, atol=0.02 * float(finite), equal_nan=True)
        wrong = ~near | (
            has_signs & (ours == 0) & (theirs == 0) & (np.signbit(ours) != np.signbit(theirs))
        )
    at = next(zip(*np.nonzero(np.atleast_1d(wrong)), strict=True), None)
    return "" if at is None else f"{np.atleast_1d(theirs)[at]} for {np.atleast_1d(ours)[at]}"


def _samples(model: ModelProto) -> Iterator[tuple[str, Feeds]]:
    zeros = {v.name: _zeros(v.type.tensor_type) for v in inputs_to_feed(model.graph)}
    floats = [name for name, array in zeros.items() if array.dtype.kind == "f"]
    yield "−0", {name: -array if name in floats else array for name, array in zeros.items()}
    if 1 < len(floats) < 4:
        yield from _large_samples(floats, zeros)
    constants = [numpy_helper.to_array(tensor) for tensor in tensors_of(model) if _is_row(tensor)]
    for name in floats:
        for label, array in _special_arrays(name, zeros[name], constants[:MOST_CONSTANTS]):
            yield label, zeros | {name: array}


def _large_samples(floats: Sequence[str], zeros: Feeds) -> Iterator[tuple[str, Feeds]]:
    """Samples with large numbers for all inputs."""
    for numbers in product(TOGETHER, repeat=len(floats)):
        chosen = zip(floats, numbers, strict=True)
        with np.errstate(all="ignore"):
            arrays = {name: np.full_like(zeros[name], number) for name, number in chosen}
        yield f"{numbers}", zeros | arrays


def _special_arrays(
    name: str, like: Array, constants: Sequence[Array]
) -> Iterator[tuple[str, Array]]:
    """Special values for one input: special numbers, and negated constants of the model."""
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL, like.dtype)
    for start in range(0, special.size, max(1, like.size)):
        yield f"special {name}", np.resize(np.roll(special, -start), like.shape)
    for constant in constants:
        if like.shape[-1:] == constant.shape:
            with np.errstate(all="ignore"):
                array = np.broadcast_to(-constant, like.shape).astype(like.dtype)
            yield f"a constant as {name}", array


def _is_row(tensor: TensorProto) -> bool:
    is_float = tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16)
    return (
        is_float
        and len(tensor.dims) == 1
        and 1 < tensor.dims[0] <= FEW_ELEMENTS
        and not tensor.external_data
    )


def _zeros(type_: Any, size: int = SIZE) -> Array:
    # -1 also means an unknown size
    shape = [dim.dim_value if dim.dim_value > 0 else size for dim in type_.shape.dim]
    return np.zeros(shape, helper.tensor_dtype_to_np_dtype(type_.elem_type))


def slowness(model: ModelProto, result: Path, other: Path) -> float:
    """The run time of `result`, divided by that of `other`, in onnxruntime: the median over runs in
    turn. 0 if they do not run with equal sizes of all dynamic dimensions.
    """
    rng = np.random.default_rng(0)
    feeds = {v.name: _zeros(v.type.tensor_type, LARGE_SIZE) for v in inputs_to_feed(model.graph)}
    for name, array in feeds.items():
        feeds[name] = (
            rng.normal(size=array.shape).astype(array.dtype) if array.dtype.kind == "f" else array
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    taken: list[list[float]] = [[], []]
    try:
        sessions = [
            onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            for path in (result, other)
        ]
        for _ in range(ROUNDS):
            for session, times in zip(sessions, taken, strict=True):
                start = time.perf_counter()
                session.run(None, feeds)
                times.append(time.perf_counter() - start)
    except Exception:  # onnxruntime raises errors of many types
        return 0.0
    return statistics.median(taken[0]) / statistics.median(taken[1])
