"""Find sizes that shape inference believes and onnxruntime does not enforce, by contradicting them,
operator by operator.

    python benchmarks/enforced_sizes.py                  all operators, in all their versions
    python benchmarks/enforced_sizes.py --only PRelu     operators whose name begins with a word
    python benchmarks/enforced_sizes.py --table out.md   also a table of the sizes that each input
                                                         of each operator may have

The nodes are those of onnx's own tests. Each size of each input becomes 0, 1, smaller, larger and
twice as large, alone and together with others, and each input loses or gains an axis. If
onnxruntime computes a result anyway, fusionc must not infer another shape for it: neither from the
original sizes, nor from symbols in their places, whatever the values of the symbols. The rules that
follow are in `operators.disputed_shapes`. Exit code 1 if an operator still contradicts the inferred
shapes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from fusionc.shapes.expressions import polynomial_of
from fusionc.shapes.inference import typed_model

Array = NDArray[Any]
Shape = tuple["int | str", ...]
OWN = "com.microsoft"
LARGEST = 20_000  # elements; the sizes of larger tensors show nothing new
SMALL = 32  # elements of inputs that may be axes, shapes or pads
RANDOM = 24  # contradictions of several sizes at once
OLDEST = 7  # opset
NEWEST = 23  # the newest opset of the standard operators, if a node has operators of another domain
DOMAINS = {"ai.onnx.ml": 3, OWN: 1}
SLOW = 10  # seconds for one run
MOST = 60  # nodes of one operator
ANSWERS = ("computed", "refused", "not run", "crashed or hung")
LEFT_OUT = ("Random", "Multinomial", "Bernoulli", "Optional", "Sequence", "If", "Loop", "Scan")
MORE = [  # calls that onnx's tests lack
    ("PRelu", {}, [(3, 4), (3, 4)], 16),
    ("Concat", {"axis": 1}, [(2, 3, 4), (2, 1, 4), (2, 2, 4)], 13),
    ("Sum", {}, [(2, 3), (2, 3), (2, 3)], 13),
    ("Max", {}, [(2, 3), (1, 3), (3,)], 13),
    ("Conv", {"group": 2}, [(1, 4, 5), (6, 2, 3), (6,)], 11),
    ("ConvTranspose", {"group": 2}, [(1, 4, 5), (4, 3, 3), (6,)], 11),
    ("Gemm", {"transA": 1, "transB": 1}, [(3, 2), (5, 3), (1, 5)], 13),
    ("MatMul", {}, [(2, 3, 4), (2, 4, 5)], 13),
    ("LayerNormalization", {}, [(2, 3, 4), (4,), (4,)], 17),
    ("InstanceNormalization", {}, [(2, 3, 4), (3,), (3,)], 6),
    ("BatchNormalization", {}, [(2, 3, 4), (3,), (3,), (3,), (3,)], 15),
    ("GroupNormalization", {"num_groups": 2}, [(2, 4, 3), (4,), (4,)], 21),
    ("Softmax", {"axis": 1}, [(2, 3, 4)], 11),
]
OF_RUNTIME = [  # onnxruntime's own operators: attributes, and the type and sizes of each input
    ("Gelu", {}, ["f4 2,3"]),
    ("QuickGelu", {}, ["f4 2,3"]),
    ("FastGelu", {}, ["f4 2,3,4", "f4 4"]),
    ("BiasGelu", {}, ["f4 2,3,4", "f4 4"]),
    ("Inverse", {}, ["f4 2,3,3"]),
    ("Trilu", {}, ["f4 2,3,4"]),
    ("CDist", {"metric": "euclidean"}, ["f4 3,4", "f4 5,4"]),
    ("SkipLayerNormalization", {}, ["f4 2,3,4", "f4 2,3,4", "f4 4", "f4 4", "f4 4"]),
    ("SkipLayerNormalization", {}, ["f4 2,3,4", "f4 3,4", "f4 4", "f4 4"]),
    ("SkipSimplifiedLayerNormalization", {}, ["f4 2,3,4", "f4 2,3,4", "f4 4"]),
    ("FusedMatMul", {"transA": 1}, ["f4 2,4,3", "f4 2,4,5"]),
    ("FusedMatMul", {"transB": 1}, ["f4 2,3,4", "f4 5,4"]),
    ("TransposeMatMul", {"transB": 1}, ["f4 2,3,4", "f4 5,4"]),
    (
        "MatMulNBits",
        {"K": 16, "N": 8, "bits": 4, "block_size": 16},
        ["f4 2,3,16", "u1 8,1,8", "f4 8"],
    ),
    ("MatMulIntegerToFloat", {}, ["u1 2,3,4", "u1 4,5", "f4 1", "f4 1"]),
    ("DynamicQuantizeMatMul", {}, ["f4 2,3,4", "u1 4,5", "f4 1"]),
    (
        "GatherBlockQuantized",
        {"block_size": 16, "quantize_axis": 1},
        ["u1 4,8", "i8 2,3", "f4 4,1"],
    ),
    ("EmbedLayerNormalization", {}, ["i4 2,3", "-", "f4 5,8", "f4 5,8", "-", "f4 8", "f4 8"]),
    ("Attention", {"num_heads": 2}, ["f4 2,3,8", "f4 8,24", "f4 24"]),
    ("MultiHeadAttention", {"num_heads": 2}, ["f4 2,3,8", "f4 2,5,8", "f4 2,5,8"]),
    ("RotaryEmbedding", {}, ["f4 2,2,3,8", "i8 2,3", "f4 6,4", "f4 6,4"]),
    ("QLinearAdd", {}, ["u1 2,3,4", "f4", "u1", "u1 3,4", "f4", "u1", "f4", "u1"]),
    ("QLinearMul", {}, ["u1 2,3,4", "f4", "u1", "u1 1,4", "f4", "u1", "f4", "u1"]),
    ("QLinearSigmoid", {}, ["u1 2,3", "f4", "u1", "f4", "u1"]),
    ("QLinearLeakyRelu", {}, ["u1 2,3", "f4", "u1", "f4", "u1"]),
    ("QLinearSoftmax", {"opset": 13}, ["u1 2,3", "f4", "u1", "f4", "u1"]),
    ("QLinearWhere", {}, ["b1 2,1", "u1 2,3", "f4", "u1", "u1 3", "f4", "u1", "f4", "u1"]),
    ("QuantizeLinear", {}, ["f4 2,3", "f4", "u1"]),
    ("DequantizeLinear", {}, ["u1 2,3", "f4", "u1"]),
    ("FusedConv", {"activation": "Relu"}, ["f4 1,2,4,4", "f4 3,2,3,3", "f4 3"]),
    ("FusedGemm", {"activation": "Relu"}, ["f4 2,3", "f4 3,4", "f4 1,4"]),
]


@dataclass
class Call:
    """One node with inputs that it accepts."""

    node: onnx.NodeProto
    inputs: list[Array | None]
    opset: int

    @property
    def label(self) -> str:
        attributes = {a.name: helper.get_attribute_value(a) for a in self.node.attribute}
        shapes = [None if x is None else x.shape for x in self.inputs]
        return f"{self.node.op_type} {self.opset} {attributes} {shapes}"


@dataclass
class Found:
    """The results of contradicting an operator."""

    answers: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, str] = field(default_factory=dict)  # kind → example

    def add(self, other: Found) -> None:
        self.answers += other.answers
        self.wrong = other.wrong | self.wrong


def calls() -> Iterator[Call]:
    """The nodes of onnx's tests, each once, in all versions of their operators that accept them."""
    seen = set()
    for call in (*_of_tests(), *_of_shapes(), *_of_runtime()):
        for opset in _versions(call):
            moved = _as_in(call, opset)
            if moved is not None and moved.label not in seen:
                seen.add(moved.label)
                yield moved


def _of_tests() -> Iterator[Call]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        graph = case.model.graph
        if len(graph.node) != 1 or graph.node[0].op_type.startswith(LEFT_OUT):
            continue
        given = case.data_sets[0][0]
        arrays = dict(zip((value.name for value in graph.input), given, strict=False))
        inputs = [arrays.get(name) for name in graph.node[0].input]
        if all(x is None or _is_plain(x) for x in inputs):
            opset = next((o.version for o in case.model.opset_import if not o.domain), NEWEST)
            yield Call(graph.node[0], inputs, opset)


def _of_shapes() -> Iterator[Call]:
    for op, attributes, shapes, opset in MORE:
        inputs = [np.full(shape, 0.5, np.float32) for shape in shapes]
        node = helper.make_node(op, [f"x{k}" for k in range(len(shapes))], ["y"], **attributes)
        yield Call(node, [*inputs], opset)


def _of_runtime() -> Iterator[Call]:
    for op, attributes, written in OF_RUNTIME:
        inputs = [None if text == "-" else _filled(*text.split()) for text in written]
        names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
        outputs = ["y", "mask_index"] if op == "EmbedLayerNormalization" else ["y"]
        yield Call(helper.make_node(op, names, outputs, domain=OWN, **attributes), inputs, NEWEST)


def _filled(kind: str, sizes: str = "") -> Array:
    shape = [int(size) for size in sizes.split(",") if size]
    if kind == "f4":
        return np.random.default_rng(len(sizes)).uniform(0.5, 1.5, shape).astype(kind)
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)


def _is_plain(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fiub" and x.size <= LARGEST


def _versions(call: Call) -> list[int]:
    """The opset of the test, and each older one with another version of the operator."""
    if call.node.domain not in ("", "ai.onnx"):
        return [call.opset]
    schemas = onnx.defs.get_all_schemas_with_history()
    since = {s.since_version for s in schemas if s.name == call.node.op_type and s.domain == ""}
    newest = max((v for v in since if v <= call.opset), default=call.opset)
    return [call.opset, *(max(v, OLDEST) for v in sorted(since) if v < newest)]


def _as_in(call: Call, opset: int) -> Call | None:
    """The same call in an older opset. Constants that were attributes there become attributes."""
    if opset == call.opset:
        return call
    try:
        now = onnx.defs.get_schema(call.node.op_type, call.opset, "")
        then = onnx.defs.get_schema(call.node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    node = onnx.NodeProto.FromString(call.node.SerializeToString())
    kept = len(call.inputs) if then.max_input > len(now.inputs) else then.max_input
    for at, x in list(enumerate(call.inputs))[kept:]:
        name = now.inputs[at].name
        if x is None:
            continue
        if name not in then.attributes:
            return None
        kind = then.attributes[name].type
        is_list = kind in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)
        held = x.reshape(-1).tolist() if is_list else x.item()
        node.attribute.append(helper.make_attribute(name, held, attr_type=int(kind.value)))
    if any(attribute.name not in then.attributes for attribute in node.attribute):
        return None
    del node.input[kept:]
    return Call(node, call.inputs[:kept], opset)


def contradictions(call: Call) -> Iterator[tuple[str, list[Array | None]]]:
    """Other inputs, each with a description of the difference."""
    yield "as it is", call.inputs
    axes = [(i, a) for i, x in enumerate(call.inputs) if x is not None for a in range(x.ndim)]
    for i, axis in axes:
        for size in _sizes(call.inputs[i].shape[axis]):
            yield f"input {i} axis {axis} = {size}", _resized(call.inputs, {(i, axis): size})
    if len(axes) > 1:
        for sizes in _random_sizes(call, axes):
            yield f"sizes {sizes}", _resized(call.inputs, sizes)
    for i, x in enumerate(call.inputs):
        for other in () if x is None else _of_other_rank(x):
            inputs = [*call.inputs[:i], other, *call.inputs[i + 1 :]]
            yield f"input {i} of rank {other.ndim}", inputs


def _random_sizes(
    call: Call, axes: Sequence[tuple[int, int]]
) -> Iterator[dict[tuple[int, int], int]]:
    """Other sizes for several axes at once."""
    rng = np.random.default_rng(zlib.crc32(call.label.encode()))
    for _ in range(RANDOM):
        some = rng.choice(len(axes), min(len(axes), int(rng.integers(2, 5))), replace=False)
        yield {
            (i, axis): int(rng.choice(_sizes(call.inputs[i].shape[axis])))
            for i, axis in (axes[k] for k in some)
        }


def _of_other_rank(x: Array) -> Iterator[Array]:
    yield x[None]
    yield np.concatenate([x[None]] * 2)
    if x.ndim and len(x):
        yield x[0]


def _sizes(size: int) -> list[int]:
    return [s for s in dict.fromkeys((0, 1, size - 1, size + 1, 2 * size)) if s >= 0 and s != size]


def _resized(
    inputs: Sequence[Array | None], sizes: Mapping[tuple[int, int], int]
) -> list[Array | None]:
    made = list(inputs)
    for (i, axis), size in sizes.items():
        x = made[i]
        if x is None:
            continue
        if x.shape[axis]:
            made[i] = np.take(x, np.arange(size) % x.shape[axis], axis)
        else:
            shape = [*x.shape[:axis], size, *x.shape[axis + 1 :]]
            made[i] = np.ones(shape, x.dtype)
    return made


def declarations(inputs: Sequence[Array | None]) -> Iterator[tuple[list[Shape | None], bool]]:
    """Possible declarations of the sizes, and whether integers are constants: sizes as they are,
    each size in turn as a symbol, all sizes of one input, and all sizes.
    """
    shapes = [None if x is None else x.shape for x in inputs]
    of_each = [[(i, axis) for axis in range(len(shape or ()))] for i, shape in enumerate(shapes)]
    axes = [*chain(*of_each)]
    for symbols in {tuple(some): None for some in ([], *([axis] for axis in axes), *of_each, axes)}:
        declared = [_declared(i, shape, symbols) for i, shape in enumerate(shapes)]
        yield declared, True
        if len(symbols) in (0, len(axes)):
            yield declared, False


def _declared(
    i: int, shape: tuple[int, ...] | None, symbols: Sequence[tuple[int, int]]
) -> Shape | None:
    """The shape of input i with symbols for some axes."""
    if shape is None:
        return None
    return tuple(f"s{i}_{a}" if (i, a) in symbols else size for a, size in enumerate(shape))


def model_of(
    call: Call, inputs: Sequence[Array | None], shapes: Sequence[Any], constants: bool
) -> onnx.ModelProto:
    node = onnx.NodeProto.FromString(call.node.SerializeToString())
    del node.input[:], node.output[:]
    node.input.extend("" if x is None else f"i{at}" for at, x in enumerate(inputs))
    node.output.extend(name and f"o{at}" for at, name in enumerate(call.node.output))
    graph = onnx.GraphProto(name="g", node=[node])
    for at, x in enumerate(inputs):
        if x is None:
            continue
        elem_type = helper.np_dtype_to_tensor_dtype(x.dtype)
        if constants and _is_parameter(x):
            graph.initializer.append(
                numpy_helper.from_array(np.ascontiguousarray(x).reshape(x.shape), f"i{at}")
            )
        else:
            graph.input.append(helper.make_tensor_value_info(f"i{at}", elem_type, shapes[at]))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    opsets = [helper.make_opsetid("", call.opset)]
    if call.node.domain in DOMAINS:
        opsets.append(helper.make_opsetid(call.node.domain, DOMAINS[call.node.domain]))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _is_parameter(x: Array) -> bool:
    return x.dtype.kind in "iu" and x.ndim <= 1 and x.size <= SMALL


def examine(call: Call, begin: int) -> Iterator[Found]:
    """The result of each contradiction, beginning with this one."""
    is_run = begin > 0 or _run(call, call.inputs) is not None
    if not is_run:
        yield Found(Counter({"not run": 1}))
    for what, inputs in islice(contradictions(call), begin, None) if is_run else ():
        results = _run(call, inputs)
        found = Found(Counter({"refused" if results is None else "computed": 1}))
        for kind in () if results is None else _wrong(call, inputs, results):
            found.wrong.setdefault(f"{call.opset} {kind}", f"{call.label}: {what}")
        yield found


def _run(call: Call, inputs: Sequence[Array | None]) -> list[Any] | None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    open_ = [None if x is None else [None] * x.ndim for x in inputs]
    model = model_of(call, inputs, open_, True)
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        wanted = {value.name for value in session.get_inputs()}
        feeds = {f"i{at}": x for at, x in enumerate(inputs) if x is not None and f"i{at}" in wanted}
        return list(session.run(None, feeds))
    except Exception:
        return None


def _wrong(call: Call, inputs: Sequence[Array | None], results: Sequence[Any]) -> Iterator[str]:
    """Each kind of fault: an output and an axis whose inferred size is wrong."""
    for shapes, constants in declarations(inputs):
        try:
            model = typed_model(model_of(call, inputs, shapes, constants), "")
        except Exception:
            continue
        sizes = _sizes_of_symbols(inputs, shapes)
        for at, (value, result) in enumerate(zip(model.main.outputs, results, strict=False)):
            if value.shape is not None and isinstance(result, np.ndarray):
                yield from (
                    f"{what} of output {at}" for what in _contradicted(value.shape, result, sizes)
                )


def _sizes_of_symbols(inputs: Sequence[Array | None], shapes: Sequence[Any]) -> dict[str, int]:
    given = [(x, shape) for x, shape in zip(inputs, shapes, strict=True) if x is not None]
    pairs = [pair for x, shape in given for pair in zip(shape, x.shape, strict=True)]
    return {dim: size for dim, size in pairs if isinstance(dim, str)}


def _contradicted(known: Sequence[Any], result: Array, sizes: Mapping[str, int]) -> Iterator[str]:
    if len(known) != result.ndim:
        yield "rank"
        return
    for axis, (dim, size) in enumerate(zip(known, result.shape, strict=True)):
        if _number(dim, sizes) not in (None, size):
            yield f"axis {axis - len(known)}"


def _number(dim: Any, sizes: Mapping[str, int]) -> int | None:
    """The value of an inferred dimension if its symbols have these sizes. None for a dimension with
    a name of its own.
    """
    return None if dim is None else polynomial_of(dim).value(sizes)


def examined(some: Sequence[Call]) -> Found:
    """The results for all calls of one operator, in separate processes, because some sizes crash or
    block onnxruntime.
    """
    total = Found()
    at = 0
    begin = 0
    while at < len(some):
        mine, theirs = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.Process(target=_child, args=(some[at:], begin, theirs))
        child.start()
        theirs.close()
        try:
            while at < len(some) and mine.poll(SLOW):
                found = mine.recv()
                total.add(found or Found())
                begin += 1
                if found is None:
                    at += 1
                    begin = 0
        except EOFError:
            pass
        child.kill()
        child.join()
        if at < len(some):
            total.answers["crashed or hung"] += 1
            begin += 1
    return total


def _child(some: Sequence[Call], begin: int, pipe: Any) -> None:
    """Send each finding, and None after the findings of each call."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hide the output of a crash
    for at, call in enumerate(some):
        for found in examine(call, 0 if at else begin):
            pipe.send(found)
        pipe.send(None)


def main() -> int:
    ort.set_default_logger_severity(4)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="operators whose name begins so")
    parser.add_argument("--table", type=Path, help="write what was found of each operator there")
    options = parser.parse_args()
    by_op: dict[str, list[Call]] = defaultdict(list)
    for call in calls():
        if call.node.op_type.startswith(options.only):
            by_op[call.node.op_type].append(call)
    rows = [
        f"| operator | {' | '.join(ANSWERS)} | known wrongly |",
        "|---" * (len(ANSWERS) + 2) + "|",
    ]
    is_wrong = False
    for op, some in sorted(by_op.items()):
        found = examined(some[:: -(-len(some) // MOST)])
        counts = [str(found.answers[answer]) for answer in ANSWERS]
        rows.append(f"| {op} | {' | '.join(counts)} | {', '.join(found.wrong)} |")
        for kind, example in found.wrong.items():
            print(f"{op}: {kind}: {example}", flush=True)
            is_wrong = True
    if options.table:
        options.table.write_text("\n".join(rows) + "\n")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
