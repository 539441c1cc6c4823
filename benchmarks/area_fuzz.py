"""Run random areas as plain operators and as generated kernels, and compare the results.

    python benchmarks/area_fuzz.py --count 10000 --seed 1
    python benchmarks/area_fuzz.py --seed 1 --only 123         only area 123 of these
    python benchmarks/area_fuzz.py --count 200 --sanitize      under AddressSanitizer and
                                                               UndefinedBehaviorSanitizer

The reference is onnxruntime with its optimizers off. For float16, the reference computes as kernels
do: in float, rounded at the outputs. A float may differ by a small share of itself, or by as much
as the reference changes when its inputs and the results of inexact operators such as exponentials
are moved by a few units in the last place. Elements that depend on the order of a reduction may
have any value. Integers and booleans must be equal. If a difference is larger, ONNX's own reference
implementation decides, in double precision: a result that is as near to it as onnxruntime's is
counted, but is not a finding. An area that no kernel can compute is counted with its reason. Exit
code 1 if there are findings.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
from numpy.typing import DTypeLike

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "graph_kernel"))
import sanitized
from area_models import Maker
from areas import differences, kernel_model, plain_model, session, settled_by
from fuzz_options import fuzz_options
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.library.build_library import build

_BATCH = 100  # areas in one library
_SHARE = 2e-5
_LEAST = 1e-6  # a number that should be 0 is seldom exactly 0
_NOISE = 100  # differences up to this many times the effect of noise in the inputs count as noise
_DRAWS = 12  # runs with noise; for example, a square root rounds most small changes away
_UNITS = 4  # in the last place; the error that an exponential may have
_INEXACT = frozenset({
    "Celu", "Cos", "Elu", "Erf", "Exp", "Gelu", "LayerNormalization", "Log", "LogSoftmax", "Mish", "Pow",
    "RMSNormalization", "ReduceLogSum", "ReduceLogSumExp", "Selu", "Sigmoid", "Sin", "Softmax", "Softplus", "Swish", "Tanh",
})  # fmt: skip


def in_float(model: onnx.ModelProto) -> onnx.ModelProto:
    """A float16 model that computes in float, and rounds the results of Casts and its outputs."""
    graph = model.graph
    nodes = list[onnx.NodeProto]()
    renamed = dict[str, str]()
    for value in graph.input:
        if _is_half(value):
            renamed[value.name] = f"{value.name}.full"
            nodes.append(_cast(value.name, renamed[value.name], TensorProto.FLOAT))
    convert_initializers(graph, TensorProto.FLOAT16, np.float32)
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        nodes.append(node)
        if node.op_type == "Cast" and node.attribute[0].i == TensorProto.FLOAT16:
            rounded = node.output[0]
            node.output[0] = f"{rounded}.half"
            nodes.append(_cast(node.output[0], rounded, TensorProto.FLOAT))
    _round_outputs([value.name for value in graph.output if _is_half(value)], nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _round_outputs(names: Sequence[str], nodes: list[onnx.NodeProto]) -> None:
    """Let these nodes compute in float and return float16."""
    for name in names:
        full_name = f"{name}.full"
        for node in nodes:
            node.output[:] = [full_name if other == name else other for other in node.output]
            node.input[:] = [full_name if other == name else other for other in node.input]
        nodes.append(_cast(full_name, name, TensorProto.FLOAT16))


def _is_half(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.FLOAT16)


def _cast(source: str, target: str, dtype: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], to=dtype)


def convert_initializers(graph: onnx.GraphProto, source: int, dtype: DTypeLike) -> None:
    """Store the initializers of an element type in another type."""
    for initializer in graph.initializer:
        if initializer.data_type == source:
            array = numpy_helper.to_array(initializer).astype(dtype)
            initializer.CopyFrom(numpy_helper.from_array(array, initializer.name))


@dataclass
class _NoisyModel:
    """A model in which the results of inexact operators are multiplied by additional inputs."""

    model: onnx.ModelProto
    dtypes: dict[str, np.dtype]  # of the further inputs, by name
    exact: dict[str, str]  # name of a further input → result that it multiplies


def noisy_runs(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
    """The outputs of runs in which the inputs, and each element that an inexact operator computes,
    are changed a little.
    """
    noisy = _with_noise(model)
    count = len(noisy.model.graph.output) - len(noisy.exact)
    one = session(noisy.model, threads=1)
    rng = np.random.default_rng(0)
    ones = {name: np.ones((), dtype) for name, dtype in noisy.dtypes.items()}
    first = one.run(None, {**feeds, **ones})
    ideal = dict(zip(noisy.exact, first[count:], strict=True))
    runs = []
    for draw in range(_DRAWS):
        given = {name: _moved(rng, array, 2) for name, array in feeds.items()}
        given |= {
            name: _moved(rng, np.ones(ideal[name].shape, dtype), _UNITS)
            for name, dtype in noisy.dtypes.items()
        }
        # a number that is nearly 1 may become 1, and its distance from 1 is then no longer a
        # divisor
        if draw == 0:
            given |= {name: _to_units(value) for name, value in ideal.items()}
        runs.append(one.run(None, given)[:count])
    return runs


def _with_noise(model: onnx.ModelProto) -> _NoisyModel:
    # the error of the curve in a Gelu is a few units of the curve, and the Gelu itself is smaller
    # if it is near 0
    noisy = onnx.inliner.inline_selected_functions(
        onnx.shape_inference.infer_shapes(model),
        [("", "Gelu"), ("", "Mish")],
        inline_schema_functions=True,
    )
    typed = onnx.shape_inference.infer_shapes(noisy).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*typed.value_info, *typed.output)}
    exact = dict[str, str]()
    dtypes = dict[str, np.dtype]()
    for place in reversed(_places(noisy.graph, _INEXACT)):
        name = noisy.graph.node[place].output[0]
        noise = f"{name}.noise"
        exact[noise] = f"{name}.exact"
        dtypes[noise] = helper.tensor_dtype_to_np_dtype(types[name])
        _multiply(noisy.graph, place, noise)
        noisy.graph.input.append(helper.make_tensor_value_info(noise, types[name], None))
        noisy.graph.output.append(helper.make_tensor_value_info(exact[noise], types[name], None))
    return _NoisyModel(noisy, dtypes, exact)


def _multiply(graph: onnx.GraphProto, place: int, factor: str) -> None:
    """Multiply the result of the node at this place. The product keeps the name of the result, and
    the result is renamed to NAME.exact.
    """
    node = graph.node[place]
    name = node.output[0]
    node.output[0] = f"{name}.exact"
    graph.node.insert(place + 1, helper.make_node("Mul", [node.output[0], factor], [name]))
    # the mean of equal numbers may also be off by a unit
    if node.op_type == "LayerNormalization":
        moved = helper.make_node("Mul", [node.input[0], factor], [f"{name}.moved"])
        node.input[0] = moved.output[0]
        graph.node.insert(place, moved)


def _places(graph: onnx.GraphProto, operators: Collection[str]) -> list[int]:
    return [k for k, node in enumerate(graph.node) if node.op_type in operators]


def exact_run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model, computed by ONNX's reference implementation in double precision."""
    exact = _in_double(model)
    # the Mean of the reference implementation does not broadcast
    for place in reversed(_places(exact.graph, {"Mean"})):
        _replace_mean(exact.graph, place)
    given = {
        name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in feeds.items()
    }
    with np.errstate(all="ignore"):
        return [np.asarray(one) for one in ReferenceEvaluator(exact).run(None, given)]


def _in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model with double in place of float."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    single = TensorProto.FLOAT
    double = TensorProto.DOUBLE
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.tensor_type.elem_type == single:
            value.type.tensor_type.elem_type = double
    convert_initializers(copy.graph, single, np.float64)
    for node in copy.graph.node:
        if node.op_type == "Cast" and node.attribute[0].i == single:
            node.attribute[0].i = double
    return copy


def _replace_mean(graph: onnx.GraphProto, place: int) -> None:
    """Replace the Mean at this place by a Sum and a Div."""
    node = graph.node[place]
    name = node.output[0]
    node.op_type = "Sum"
    node.output[0] = f"{name}.sum"
    count = np.array(float(len(node.input)))
    graph.initializer.append(numpy_helper.from_array(count, f"{name}.count"))
    quotient = helper.make_node("Div", [node.output[0], f"{name}.count"], [name])
    graph.node.insert(place + 1, quotient)


def is_as_near(got: np.ndarray, wanted: np.ndarray, exact: np.ndarray, share: float) -> np.ndarray:
    """Whether each element of `got` is as near to `exact` as it should be, or not farther from it
    than the element of `wanted`.
    """
    a, b, c = (one.astype(np.float64) for one in (got, wanted, exact))
    with np.errstate(all="ignore"):
        off = np.abs(a - c)
        return (
            (a == c) | ((a != a) & (c != c)) | (off <= share * np.abs(c)) | (off <= np.abs(b - c))
        )


def finding(
    area: Area, feeds: Mapping[str, np.ndarray], got: Sequence[np.ndarray], counts: Counter[str]
) -> str:
    """How the outputs of a kernel differ from those of the plain operators. "" if they do not."""
    has_half = any(value.dtype == TensorProto.FLOAT16 for value in area.values.values())
    model = plain_model(area)
    if has_half:
        model = in_float(model)
    plain = session(model, threads=1)
    wanted = plain.run(None, dict(feeds))
    share = 2e-3 if has_half else _SHARE
    if not differences(wanted, got, share):
        return ""
    moved = noisy_runs(model, feeds)
    pairs = settled_by(model, feeds, wanted, got)
    for k, (want, have) in enumerate(pairs):
        calm = ~_is_noise(want, have, _noise(want, [run[k] for run in moved]))
        if differences([want[calm]], [have[calm]], share):
            calm &= ~is_as_near(have, want, exact_run(model, feeds)[k], share)
            if difference := differences([want[calm]], [have[calm]], share):
                return f"output {k}: {difference}"
            counts["nearer than onnxruntime"] += 1
    return ""


def _noise(wanted: np.ndarray, moved: Sequence[np.ndarray]) -> np.ndarray:
    """The error that each element of an output may have, according to noisy runs."""
    if wanted.dtype.kind != "f":
        return np.zeros(wanted.shape)
    with np.errstate(all="ignore"):
        off = [np.abs(other.astype(np.float64) - wanted) for other in moved]
        return np.asarray(np.max(off, axis=0, initial=0) * _NOISE + _LEAST)


def _is_noise(wanted: np.ndarray, got: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Whether the error of each element is not larger than noise."""
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
        near = np.nan_to_num(off, nan=np.inf, posinf=np.inf) <= noise
        # a divisor may become 0
        return near | np.isnan(noise) | (np.isinf(got) & (noise >= np.abs(wanted)))


def _moved(rng: np.random.Generator, array: np.ndarray, units: int) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    return np.asarray(
        array * (1 + rng.uniform(-1, 1, array.shape) * np.finfo(array.dtype).eps * units)
    ).astype(array.dtype)


def _to_units(array: np.ndarray) -> np.ndarray:
    """Factors that round numbers to multiples of `_UNITS` units in the last place."""
    mantissa, exponent = np.frexp(array)
    step = np.finfo(array.dtype).eps * _UNITS
    with np.errstate(all="ignore"):
        share = np.ldexp(np.round(mantissa / step) * step, exponent) / array
    return np.asarray(np.where(np.isfinite(share), share, 1)).astype(array.dtype)


def run_batch(
    seed: int, numbers: Sequence[int], folder: Path, counts: Counter[str], sanitize: bool
) -> list[str]:
    """The findings of several areas that share a library."""
    makers = {f"area_{number}": Maker(f"{seed}/{number}") for number in numbers}
    areas = {name: maker.area(name) for name, maker in makers.items()}
    if sanitize:
        return sanitized.findings(
            areas,
            {n: [m.feeds(turn) for turn in range(2)] for n, m in makers.items()},
            folder,
            counts,
        )
    built = build(list(areas.values()))
    findings = _faults(built.failed, counts)
    for name, area in areas.items():
        if name not in built.failed and built.library is not None:
            problem = problem_of(area, makers[name], built.library, counts)
            findings += [f"{name}: {problem}"] if problem else []
    return findings


def _faults(failed: Mapping[str, str], counts: Counter[str]) -> list[str]:
    """Count the areas that no kernel can compute, by reason. Return the errors of the compiler,
    which are findings.
    """
    counts["refused"] += len(failed)
    counts.update(f"refused: {reason}" for reason in failed.values())
    return [f"{name}: {reason}" for name, reason in failed.items() if "error" in reason]


def problem_of(area: Area, maker: Maker, library: Path, counts: Counter[str]) -> str:
    """The first finding of an area that has a kernel; "" if there is none."""
    for turn in range(2):
        feeds = maker.feeds(turn)
        try:
            got = session(kernel_model(area), library).run(None, feeds)
            problem = finding(area, feeds, got, counts)
        except Exception as error:
            # onnxruntime lacks kernels of some operators for some types
            if "NOT_IMPLEMENTED" in str(error):
                counts["not compared, onnxruntime cannot"] += 1
                return ""
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return problem
    counts["compared"] += 1
    return ""


def main() -> int:
    options = fuzz_options(__doc__)
    counts: Counter[str] = Counter()
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, len(options.numbers), _BATCH):
            batch = run_batch(
                options.seed,
                options.numbers[begin : begin + _BATCH],
                Path(folder),
                counts,
                options.sanitize,
            )
            for text in batch:
                print(text, flush=True)
            findings += batch
    print(
        f"{counts['compared']} areas compared, {counts['refused']} refused, {len(findings)} "
        "findings"
    )
    print(
        f"{counts['nearer than onnxruntime']} outputs differ from onnxruntime's and are as "
        "near "
        "to what is exact"
    )
    for reason, count in counts.most_common():
        if reason.startswith("refused: "):
            print(f"{count:6} {reason}")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
