"""Run random chains of operators on grids (integers, numbers computed from integers, and operators
that round these again), on all inputs of 8 bits.

    python benchmarks/grid_chains.py --runs 2000           default conversions with verification
    python benchmarks/grid_chains.py --runs 2000 --fast    only the default passes, in this process
    python benchmarks/grid_chains.py --only 123            only number 123

Each model converts one or two inputs of 8 bits to floating-point numbers (Cast, DequantizeLinear),
computes with these (Mul, Add, Div, Clip, Pow …), rounds the results (Round, Floor, Cast,
QuantizeLinear, a comparison, ArgMax …), and sometimes continues from there. The constants are
typical of real models: steps, 255, 1/6. With two inputs, all values of one are paired with sixteen
values of the other.

A run is right if the conversion has exit code 0, and if the original and the result give the same
integers in onnxruntime with its optimizers off. Floats after the last grid may differ by rounding.
Findings are written to build/grid_chains. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

import fusionc
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model

Array = NDArray[Any]
FOLDER = Path("build/grid_chains")
SHAPE = (16, 16)
STEPS = (
    0.1,
    0.05,
    0.02,
    1 / 255,
    2 / 255,
    1 / 127,
    0.007843138,
    0.3,
    0.25,
    1 / 3,
    0.6,
    6 / 255,
    0.023529412,
)
NUMBERS = (
    *STEPS,
    0.2,
    0.5,
    0.7,
    1.0,
    2.0,
    3.0,
    4.0,
    6.0,
    1 / 6,
    10.0,
    127.0,
    127.5,
    128.0,
    255.0,
    1e-3,
    0.485,
    0.229,
)
TYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
}
# a share of the largest element
_ELSEWHERE = {TensorProto.FLOAT: 2e-6, TensorProto.DOUBLE: 1e-13, TensorProto.FLOAT16: 4e-3}


@dataclass
class Chain:
    """A model that grows node by node."""

    rng: random.Random
    opset: int
    kind: int = TensorProto.FLOAT
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, list(inputs), [name], name=f"n{len(self.nodes)}", **attributes)
        )
        return name

    def const(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(
            numpy_helper.from_array(np.array(value, dtype or TYPES[self.kind]), name)
        )
        return name

    def number(self) -> str:
        """A constant: a single number, or one number for each column or row."""
        rng = self.rng
        sign = -1 if rng.random() < 0.2 else 1
        if rng.random() < 0.8:
            return self.const(
                np.full(rng.choice([(), (), (1,), (1, 1)]), sign * rng.choice(NUMBERS))
            )
        values = [sign * rng.choice(NUMBERS) for _ in range(SHAPE[1])]
        return self.const(
            np.reshape(values, rng.choice([(SHAPE[1],), (1, SHAPE[1]), (SHAPE[0], 1)]))
        )


def chain(seed: int, number: int) -> ModelProto:
    """The model with this number. The same seed always gives the same model."""
    rng = random.Random(f"{seed} {number}")
    while True:
        model = drawn(rng)
        try:
            session(model)
        except Exception:  # a type for which onnxruntime has no kernel
            continue
        return model


def drawn(rng: random.Random) -> ModelProto:
    kind = rng.choice([TensorProto.FLOAT] * 8 + [TensorProto.DOUBLE])
    made = Chain(rng, rng.choice([13, 17, 19, 21]), kind)
    kinds = [
        rng.choice([TensorProto.UINT8, TensorProto.INT8]) for _ in range(rng.choice([1, 1, 2]))
    ]
    inputs = [helper.make_tensor_value_info(f"x{at}", of, SHAPE) for at, of in enumerate(kinds)]
    values = [enter(made, f"x{at}", of) for at, of in enumerate(kinds)]
    outputs = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(len(values))
            values[at] = compute(made, values[at], rng.choice(values))
        at = rng.randrange(len(values))
        rounded, is_end = rng.choice(GRIDS)(made, values[at])
        outputs.append(rounded)
        if is_end:
            break
        values[at] = rounded
    if rng.random() < 0.3 and not is_end:
        outputs[-1] = compute(made, outputs[-1], outputs[-1])
    named = [
        onnx.ValueInfoProto(name=made.add("Identity", name)) for name in dict.fromkeys(outputs)
    ]
    graph = helper.make_graph(made.nodes, "chain", inputs, named, made.constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", made.opset)], ir_version=8
    )
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    del inferred.graph.value_info[:]
    return inferred


def enter(made: Chain, x: str, kind: int) -> str:
    """8-bit integers as floating-point numbers."""
    rng = made.rng
    if made.kind == TensorProto.FLOAT and rng.random() < 0.5:
        zero = made.const(
            rng.choice([0, 128, 3, 120] if kind == TensorProto.UINT8 else [0, -18, 5]),
            INTEGERS[kind],
        )
        return made.add("DequantizeLinear", x, made.const(rng.choice(STEPS)), zero)
    return made.add("Cast", x, to=made.kind)


INTEGERS = {TensorProto.UINT8: np.uint8, TensorProto.INT8: np.int8}
_ONE = (
    "Abs",
    "Neg",
    "Relu",
    "Identity",
    "LeakyRelu",
    "Softsign",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "Exp",
    "Elu",
)
_TWO = ("Add", "Sub", "Max", "Min", *("Mul", "Div") * 3)


def compute(made: Chain, x: str, z: str) -> str:
    """One step between two grids, usually arithmetic with constants."""
    rng = made.rng
    draw = rng.random()
    if draw < 0.65:
        operands = [x, made.number()]
        return made.add(rng.choice(_TWO), *(operands if rng.random() < 0.8 else reversed(operands)))
    if draw < 0.7:
        return made.add(rng.choice(_TWO), x, z)
    if draw < 0.78:
        return made.add(rng.choice(_ONE), x)
    return rng.choice(_SHAPED)(made, x)


def _clip(made: Chain, x: str) -> str:
    low = made.rng.choice([0.0, -1.0, -128.0, 0.0])
    return made.add(
        "Clip", x, made.const(low), made.const(made.rng.choice([1.0, 6.0, 127.0, 255.0]))
    )


def _power(made: Chain, x: str) -> str:
    exponent = made.rng.choice([2.0, 3.0, 0.5, -1.0, -0.5, 1.0])
    return made.add("Pow", made.add("Abs", x) if exponent % 1 else x, made.const(exponent))


def _root(made: Chain, x: str) -> str:
    return made.add("Sqrt", made.add("Abs", x))


def _inverse(made: Chain, x: str) -> str:
    return made.add("Reciprocal", x)


def _turned(made: Chain, x: str) -> str:
    inner = made.add("Transpose", x, perm=[1, 0])
    return made.add("Transpose", made.add(made.rng.choice(_TWO), inner, made.number()), perm=[1, 0])


def _reshaped(made: Chain, x: str) -> str:
    flat = made.add("Reshape", x, made.const([-1], np.int64))
    return made.add(
        "Reshape",
        made.add("Mul", flat, made.const(made.rng.choice(NUMBERS))),
        made.const(SHAPE, np.int64),
    )


def _chosen(made: Chain, x: str) -> str:
    condition = made.add(
        made.rng.choice(["Greater", "Less"]), x, made.const(made.rng.choice(NUMBERS))
    )
    return made.add("Where", condition, x, made.add("Mul", x, made.const(made.rng.choice(NUMBERS))))


def _hard_sigmoid(made: Chain, x: str) -> str:
    clipped = made.add("Clip", made.add("Add", x, made.const(3)), made.const(0), made.const(6))
    gate = made.add(
        *made.rng.choice([("Div", clipped, made.const(6)), ("Mul", clipped, made.const(1 / 6))])
    )
    return made.add("Mul", x, gate) if made.rng.random() < 0.5 else gate


def _sigmoid(made: Chain, x: str) -> str:
    return made.add(
        "Div", made.const(1), made.add("Add", made.add("Exp", made.add("Neg", x)), made.const(1))
    )


def _gelu(made: Chain, x: str) -> str:
    error = made.add("Erf", made.add("Div", x, made.const(2**0.5)))
    return made.add(
        "Mul", made.add("Mul", x, made.add("Add", error, made.const(1))), made.const(0.5)
    )


def _mean(made: Chain, x: str) -> str:
    axes: dict[str, Any] = {"keepdims": 1} | ({"axes": [1]} if made.opset < 18 else {})
    more = [] if made.opset < 18 else [made.const([1], np.int64)]
    return made.add(
        "Sub", x, made.add(made.rng.choice(["ReduceMean", "ReduceMax"]), x, *more, **axes)
    )


def _normalized(made: Chain, x: str) -> str:
    vectors = [
        made.const([abs(made.rng.choice(NUMBERS)) for _ in range(SHAPE[1])]) for _ in range(4)
    ]
    return made.add("BatchNormalization", x, *vectors)


_SHAPED: tuple[Callable[[Chain, str], str], ...] = (
    *(_clip, _clip, _power, _root, _inverse, _turned, _reshaped),
    *(_chosen, _hard_sigmoid, _sigmoid, _gelu, _mean, _normalized),
)
Grid = tuple[str, bool]  # the rounded value, and whether it ends the chain


def _rounded(made: Chain, x: str) -> Grid:
    return made.add(made.rng.choice(["Round", "Floor", "Ceil", "Sign"]), x), False


def _cast(made: Chain, x: str) -> Grid:
    """A Cast to integers, within their range. Outside of the range, the result depends on the
    processor.
    """
    inside = made.add("Clip", x, made.const(-100), made.const(100))
    kind = made.rng.choice([TensorProto.INT8, TensorProto.INT32, TensorProto.INT64])
    finite = made.add("Where", made.add("IsNaN", x), made.const(0), inside)
    return made.add("Cast", made.add("Cast", finite, to=kind), to=made.kind), False


def _quantized(made: Chain, x: str) -> Grid:
    kind = made.rng.choice(list(INTEGERS))
    zero = made.const(
        made.rng.choice([0, 128, 3] if kind == TensorProto.UINT8 else [0, -18]), INTEGERS[kind]
    )
    if made.kind == TensorProto.DOUBLE:
        return _cast(
            made, made.add("Round", made.add("Div", x, made.const(made.rng.choice(STEPS))))
        )
    step = made.const(made.rng.choice(STEPS))
    number = made.add("Where", made.add("IsNaN", x), made.const(0), x)
    integers = made.add("QuantizeLinear", number, step, zero)
    if made.rng.random() < 0.4:
        return integers, True
    return made.add("DequantizeLinear", integers, step, zero), False


def _by_hand(made: Chain, x: str) -> Grid:
    step = made.const(made.rng.choice(STEPS))
    zero = made.const(made.rng.choice([0, 3, 128]))
    moved = made.add("Add", made.add("Round", made.add("Div", x, step)), zero)
    inside = made.add("Clip", moved, made.const(0), made.const(255))
    return made.add("Mul", made.add("Sub", inside, zero), step), False


def _compared(made: Chain, x: str) -> Grid:
    op = made.rng.choice(["Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"])
    return made.add(op, x, made.const(made.rng.choice([0.0, *NUMBERS]))), True


def _largest(made: Chain, x: str) -> Grid:
    return made.add("ArgMax", x, axis=1), True


GRIDS: tuple[Callable[[Chain, str], Grid], ...] = (
    *(_rounded, _rounded, _cast, _quantized, _quantized, _by_hand, _compared, _largest),
)


# -- comparing


def feeds_of(model: ModelProto) -> list[dict[str, Array]]:
    """All 8-bit values for each input. With two inputs, all values of one are paired with sixteen
    values of the other.
    """
    kinds = [INTEGERS[value.type.tensor_type.elem_type] for value in model.graph.input]
    every = np.arange(256, dtype=np.uint8).reshape(SHAPE)
    others = [every] if len(kinds) == 1 else [np.full(SHAPE, 17 * at, np.uint8) for at in range(16)]
    names = [value.name for value in model.graph.input]
    return [
        {
            name: numbers.view(kind)
            for name, numbers, kind in zip(names, (every, other), kinds, strict=False)
        }
        for other in others
    ]


def session(model: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def difference(model: ModelProto, result: ModelProto) -> str:
    """How the outputs of two models differ. "" if they do not."""
    before = session(model)
    after = session(result)
    for feeds in feeds_of(model):
        for value, want, got in zip(
            model.graph.output, before.run(None, feeds), after.run(None, feeds), strict=True
        ):
            if not is_same(want, got, is_on_grid(model, value.name)):
                at = np.flatnonzero(~((want == got) | ((want != want) & (got != got))).ravel())
                first = f"{want.ravel()[at[:3]]} became {got.ravel()[at[:3]]}"
                return f"{value.name}: {len(at)} of {want.size}, {first}"
    return ""


def is_same(want: Array, got: Array, is_exact: bool) -> bool:
    if want.dtype.kind != "f" or is_exact:
        return bool(np.array_equal(want, got, equal_nan=want.dtype.kind == "f"))
    finite = np.abs(want[np.isfinite(want)])
    share = _ELSEWHERE[helper.np_dtype_to_tensor_dtype(want.dtype)]
    return bool(
        np.allclose(got, want, rtol=share, atol=share * finite.max(initial=0), equal_nan=True)
    )


_AFTER_GRIDS = {"Round", "Floor", "Ceil", "Sign", "Cast", "DequantizeLinear"}


def is_on_grid(model: ModelProto, output: str) -> bool:
    """Whether a rounding operator computes an output, perhaps before a DequantizeLinear."""
    makers = {name: node for node in model.graph.node for name in node.output}
    return makers[makers[output].input[0]].op_type in _AFTER_GRIDS


def optimized(model: ModelProto) -> tuple[ModelProto, Counter[str]]:
    """The model after the default passes, in this process."""
    copy = ModelProto()
    copy.CopyFrom(model)
    graph = typed_model(copy, "", "onnxruntime-cpu")
    counts = run(graph, [pass_ for pass_ in PASSES if pass_.default != "off"], RewriteLog())
    return write_back(graph), Counter(
        {count.pass_name: count.effected for count in counts if count.effected}
    )


def converted(model: ModelProto) -> ModelProto:
    """The result of a default conversion. Raises FusioncError if its exit code is not 0."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.onnx"
        target = Path(folder) / "out.onnx"
        onnx.save(model, source)
        fusionc.convert(source, output=target)
        return onnx.load(target)


def finding(model: ModelProto, is_fast: bool) -> str:
    """The fault of the conversion of a model. "" if there is none."""
    try:
        result = optimized(model)[0] if is_fast else converted(model)
    except fusionc.FusioncError as error:
        return f"{error.code}: {error}"
    return difference(model, result)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument(
        "--fast",
        action="store_true",
        help="the default passes alone, without files and verification",
    )
    asked = parser.parse_args()
    numbers = range(asked.first, asked.first + asked.runs) if asked.only is None else [asked.only]
    start = time.monotonic()
    found = 0
    for done, number in enumerate(numbers):
        if done and done % 100 == 0:
            print(
                f"{done} chains, {found} findings, {time.monotonic() - start:.0f} s",
                file=sys.stderr,
                flush=True,
            )
        model = chain(asked.seed, number)
        if what := finding(model, asked.fast):
            found += 1
            FOLDER.mkdir(parents=True, exist_ok=True)
            onnx.save(model, FOLDER / f"{asked.seed}_{number}.onnx")
            print(f"{number}: {what}", flush=True)
    print(f"{len(numbers)} chains, {found} findings, {time.monotonic() - start:.0f} s")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
