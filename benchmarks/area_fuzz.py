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
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner

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
    half = TensorProto.FLOAT16
    full = TensorProto.FLOAT
    nodes = list[onnx.NodeProto]()
    renamed = dict[str, str]()
    for value in graph.input:
        if value.type.tensor_type.elem_type == half:
            renamed[value.name] = f"{value.name}.full"
            nodes.append(helper.make_node("Cast", [value.name], [renamed[value.name]], to=full))
    for initializer in graph.initializer:
        if initializer.data_type == half:
            array = numpy_helper.to_array(initializer).astype(np.float32)
            initializer.CopyFrom(numpy_helper.from_array(array, initializer.name))
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        nodes.append(node)
        if node.op_type == "Cast" and node.attribute[0].i == half:
            rounded = node.output[0]
            node.output[0] = f"{node.output[0]}.half"
            nodes.append(helper.make_node("Cast", [node.output[0]], [rounded], to=full))
    for value in graph.output:
        if value.type.tensor_type.elem_type == half:
            full_name = f"{value.name}.full"
            for node in nodes:
                node.output[:] = [full_name if name == value.name else name for name in node.output]
                node.input[:] = [full_name if name == value.name else name for name in node.input]
            nodes.append(helper.make_node("Cast", [full_name], [value.name], to=half))
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def noisy_runs(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
    """Outputs where the inputs, and each element of what inexact operators compute, are off by a
    little.
    """
    # the curve in a Gelu is off by units of what it is, which is more than the Gelu, where that is
    # near 0
    noisy = onnx.inliner.inline_selected_functions(
        onnx.shape_inference.infer_shapes(model),
        [("", "Gelu"), ("", "Mish")],
        inline_schema_functions=True,
    )
    count = len(noisy.graph.output)
    exact = dict[str, str]()
    typed = onnx.shape_inference.infer_shapes(noisy).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*typed.value_info, *typed.output)}
    for place in reversed(
        [k for k, node in enumerate(noisy.graph.node) if node.op_type in _INEXACT]
    ):
        node = noisy.graph.node[place]
        name = node.output[0]
        node.output[0] = exact[f"{name}.noise"] = f"{name}.exact"
        noisy.graph.node.insert(
            place + 1, helper.make_node("Mul", [node.output[0], f"{name}.noise"], [name])
        )
        # the mean of equal numbers may be off by a unit, too
        if node.op_type == "LayerNormalization":
            moved = helper.make_node("Mul", [node.input[0], f"{name}.noise"], [f"{name}.moved"])
            node.input[0] = moved.output[0]
            noisy.graph.node.insert(place, moved)
        noisy.graph.input.append(helper.make_tensor_value_info(f"{name}.noise", types[name], None))
        noisy.graph.output.append(helper.make_tensor_value_info(node.output[0], types[name], None))
    one = session(noisy, threads=1)
    rng = np.random.default_rng(0)
    dtypes = {
        name: helper.tensor_dtype_to_np_dtype(types[name.removesuffix(".noise")]) for name in exact
    }
    first = one.run(None, {**feeds, **{name: np.ones((), dtype) for name, dtype in dtypes.items()}})
    ideal = dict(zip(exact, first[count:], strict=True))
    runs = []
    for draw in range(_DRAWS):
        given = {name: _moved(rng, array, 2) for name, array in feeds.items()}
        given |= {
            name: _moved(rng, np.ones(ideal[name].shape, dtype), _UNITS)
            for name, dtype in dtypes.items()
        }
        # what is nearly 1 may be 1, and then its distance from 1 is no divisor any more
        if draw == 0:
            given |= {name: _to_units(value) for name, value in ideal.items()}
        runs.append(one.run(None, given)[:count])
    return runs


def exact_run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of a model as ONNX's reference implementation computes them in double."""
    exact = onnx.ModelProto()
    single = TensorProto.FLOAT
    double = TensorProto.DOUBLE
    exact.CopyFrom(model)
    for value in (*exact.graph.input, *exact.graph.output):
        if value.type.tensor_type.elem_type == single:
            value.type.tensor_type.elem_type = double
    for initializer in exact.graph.initializer:
        if initializer.data_type == single:
            array = numpy_helper.to_array(initializer).astype(np.float64)
            initializer.CopyFrom(numpy_helper.from_array(array, initializer.name))
    for node in exact.graph.node:
        if node.op_type == "Cast" and node.attribute[0].i == single:
            node.attribute[0].i = double
    for place in reversed([k for k, node in enumerate(exact.graph.node) if node.op_type == "Mean"]):
        node = exact.graph.node[place]  # the one of the reference implementation does not broadcast
        node.op_type = "Sum"
        name = node.output[0]
        node.output[0] = f"{node.output[0]}.sum"
        exact.graph.initializer.append(
            numpy_helper.from_array(np.array(float(len(node.input))), f"{name}.count")
        )
        exact.graph.node.insert(
            place + 1, helper.make_node("Div", [node.output[0], f"{name}.count"], [name])
        )
    given = {
        name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in feeds.items()
    }
    with np.errstate(all="ignore"):
        return [np.asarray(one) for one in ReferenceEvaluator(exact).run(None, given)]


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
    found = differences(wanted, got, share)
    if not found:
        return ""
    moved = noisy_runs(model, feeds)
    pairs = settled_by(model, feeds, wanted, got)
    wanted = [one for one, _ in pairs]
    got = [other for _, other in pairs]
    rest = []
    for one, *others in zip(wanted, *moved, strict=True):
        with np.errstate(all="ignore"):
            effect = np.max(
                [np.abs(other.astype(np.float64) - one) for other in others], axis=0, initial=0
            )
        rest.append(effect * _NOISE + _LEAST if one.dtype.kind == "f" else np.zeros(one.shape))
    for k, effect in enumerate(rest):
        with np.errstate(all="ignore"):
            off = np.abs(got[k].astype(np.float64) - wanted[k].astype(np.float64))
            calm = ~(np.nan_to_num(off, nan=np.inf, posinf=np.inf) <= effect) & ~np.isnan(effect)
            # what is divided by may as well be 0
            calm &= ~(np.isinf(got[k]) & (effect >= np.abs(wanted[k])))
        if differences([wanted[k][calm]], [got[k][calm]], share):
            calm &= ~is_as_near(got[k], wanted[k], exact_run(model, feeds)[k], share)
            if rest_of := differences([wanted[k][calm]], [got[k][calm]], share):
                return f"output {k}: {rest_of}"
            counts["nearer than onnxruntime"] += 1
    return ""


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
    counts["refused"] += len(built.failed)
    counts.update(f"refused: {reason}" for reason in built.failed.values())
    findings = [f"{name}: {reason}" for name, reason in built.failed.items() if "error" in reason]
    for name, area in areas.items():
        if name in built.failed or built.library is None:
            continue
        for turn in range(2):
            feeds = makers[name].feeds(turn)
            try:
                got = session(kernel_model(area), built.library).run(None, feeds)
                found = finding(area, feeds, got, counts)
            except Exception as error:
                # not every operator has a kernel for every type there
                if "NOT_IMPLEMENTED" in str(error):
                    counts["not compared, onnxruntime cannot"] += 1
                    break
                found = f"{type(error).__name__}: {error}"
            if found:
                findings.append(f"{name}: {found}")
                break
        else:
            counts["compared"] += 1
    return findings


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
