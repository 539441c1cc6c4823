"""Random areas, run as plain operators and as generated kernels, and the numbers compared.

    python benchmarks/area_fuzz.py --count 10000 --seed 1
    python benchmarks/area_fuzz.py --seed 1 --only 123         area 123 of these alone
    python benchmarks/area_fuzz.py --count 200 --sanitize      under AddressSanitizer and
    UndefinedBehaviorSanitizer

The reference is onnxruntime with its optimizers off; an area of float16 is computed there as
kernels do it: in float, rounded at its outputs. Floats may differ by a share of themselves, or as
much as the reference does when its inputs and what its exponentials and the like compute are moved
by a few units in the last place; what depends on the order of a reduction may be anything. Integers
and booleans are equal. Where they differ by more, ONNX's own reference implementation is asked, in
double: what is as near to that as onnxruntime is no finding, but counted. An area that no kernel
can compute is counted with its reason. Exit code 1 if anything differs.
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
_LEAST = 1e-6  # what should be 0 is seldom exactly that
_NOISE = 100  # how many times the effect of noise in the inputs is still noise
_DRAWS = 12  # a square root, say, rounds most small moves away
_UNITS = 4  # in the last place: what an exponential may be off
_INEXACT = frozenset({
    "Celu", "Cos", "Elu", "Erf", "Exp", "Gelu", "LayerNormalization", "Log", "LogSoftmax", "Mish", "Pow",
    "RMSNormalization", "ReduceLogSum", "ReduceLogSumExp", "Selu", "Sigmoid", "Sin", "Softmax", "Softplus", "Swish", "Tanh",
})  # fmt: skip


def in_float(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model of float16 that computes in float, and rounds what it casts and puts out."""
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
    """Let nodes that compute in float put out float16."""
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
    """A model whose inexact operators have their results multiplied by further inputs."""

    model: onnx.ModelProto
    dtypes: dict[str, np.dtype]  # of the further inputs, by name
    exact: dict[str, str]  # name of a further input → result that it multiplies


def noisy_runs(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
    """Outputs where the inputs, and each element of what inexact operators compute, are off by a
    little.
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
        # what is nearly 1 may be 1, and then its distance from 1 is no divisor any more
        if draw == 0:
            given |= {name: _to_units(value) for name, value in ideal.items()}
        runs.append(one.run(None, given)[:count])
    return runs


def _with_noise(model: onnx.ModelProto) -> _NoisyModel:
    # the curve in a Gelu is off by units of what it is, which is more than the Gelu, where that is
    # near 0
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
    """Multiply the result of the node at a place; it keeps its name, and the node's own result is
    NAME.exact.
    """
    node = graph.node[place]
    name = node.output[0]
    node.output[0] = f"{name}.exact"
    graph.node.insert(place + 1, helper.make_node("Mul", [node.output[0], factor], [name]))
    # the mean of equal numbers may be off by a unit, too
    if node.op_type == "LayerNormalization":
        moved = helper.make_node("Mul", [node.input[0], factor], [f"{name}.moved"])
        node.input[0] = moved.output[0]
        graph.node.insert(place, moved)


def _places(graph: onnx.GraphProto, operators: Collection[str]) -> list[int]:
    return [k for k, node in enumerate(graph.node) if node.op_type in operators]


def exact_run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of a model as ONNX's reference implementation computes them in double."""
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
    """Let a Sum and a Div compute what the Mean at a place does."""
    node = graph.node[place]
    name = node.output[0]
    node.op_type = "Sum"
    node.output[0] = f"{name}.sum"
    count = np.array(float(len(node.input)))
    graph.initializer.append(numpy_helper.from_array(count, f"{name}.count"))
    quotient = helper.make_node("Div", [node.output[0], f"{name}.count"], [name])
    graph.node.insert(place + 1, quotient)


def is_as_near(got: np.ndarray, wanted: np.ndarray, exact: np.ndarray, share: float) -> np.ndarray:
    """Which elements of `got` are what `exact` says, or not farther from it than those of
    `wanted`.
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
    """What differs between what a kernel gave and the plain operators, "" if nothing."""
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
    """How far each element of an output may be off, by what it was in noisy runs."""
    if wanted.dtype.kind != "f":
        return np.zeros(wanted.shape)
    with np.errstate(all="ignore"):
        off = [np.abs(other.astype(np.float64) - wanted) for other in moved]
        return np.asarray(np.max(off, axis=0, initial=0) * _NOISE + _LEAST)


def _is_noise(wanted: np.ndarray, got: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Which elements are no farther from what is wanted than noise may be."""
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
        near = np.nan_to_num(off, nan=np.inf, posinf=np.inf) <= noise
        # what is divided by may as well be 0
        return near | np.isnan(noise) | (np.isinf(got) & (noise >= np.abs(wanted)))


def _moved(rng: np.random.Generator, array: np.ndarray, units: int) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    return np.asarray(
        array * (1 + rng.uniform(-1, 1, array.shape) * np.finfo(array.dtype).eps * units)
    ).astype(array.dtype)


def _to_units(array: np.ndarray) -> np.ndarray:
    """What makes numbers, by multiplication, the next ones with `_UNITS` fewer units."""
    mantissa, exponent = np.frexp(array)
    step = np.finfo(array.dtype).eps * _UNITS
    with np.errstate(all="ignore"):
        share = np.ldexp(np.round(mantissa / step) * step, exponent) / array
    return np.asarray(np.where(np.isfinite(share), share, 1)).astype(array.dtype)


def run_batch(
    seed: int, numbers: Sequence[int], folder: Path, counts: Counter[str], sanitize: bool
) -> list[str]:
    """Findings of some areas, which share a library."""
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
    """Count what no kernel can compute, by its reason; findings are the errors of the compiler."""
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
            # not every operator has a kernel for every type there
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
