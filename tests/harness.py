"""One helper that asserts everything about a pass, so that a new case is only data.

A case is ONNX text without its header. Initializers that are declared without a value
(`<float[4,3,3,3] W>`) get seeded positive numbers between 0.5 and 1.5. `{…}` after the name gives
explicit values.

    STAYS = [Stays("wrong axis", "agraph (float[2,3] x) => (float[2,3] y) {…}", "the axes of the two operators differ")]
    FIRES = [Fires("two pieces", "agraph …", ["Split"])]
    test_stays, test_fires = tables("ZSplitVDFusionPass", STAYS, FIRES)

A pass that takes no effect by itself has only the first table: test_stays =
stays_table("MatMulAllReduce", STAYS). Those cases of a pass that differ most also run inside an If,
and inside a model-local function, where types, ranks and shapes are unknown. `in_functions` says how
often the pass takes effect there. With FUSIONC_ALL_VARIATIONS, all cases do: `make variations`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper
from variants import can_have_constant_nodes, inside_function, wrap_in_if

from fusionc.check_rewrites.check_rewrites import RewriteChecker
from fusionc.model.write_back import write_back
from fusionc.operators.randomness import RANDOM_OR_STATEFUL
from fusionc.passes import PASSES
from fusionc.protos.node_origin import FROM_KEY, PASS_KEY
from fusionc.rewrite import Pass
from fusionc.rewrite.log import PatternCount, RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.runtime.processor import has_vnni
from fusionc.shapes.inference import typed_model

# The allowed difference of two runs, as a share of the largest element: the rounding of a few
# operations.
TOLERANCE = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-13}
# operators whose results may depend on earlier runs
_REMEMBERING = {*RANDOM_OR_STATEFUL, "Dropout"}
needs_vnni = pytest.mark.skipif(
    not has_vnni(), reason="the processor lacks VNNI: sums of uint8 by int8 may saturate on it"
)


# Costly checks read a sample, or everything: `make variations`.
ALL_VARIATIONS = bool(os.environ.get("FUSIONC_ALL_VARIATIONS"))
SAMPLE = 10_000 if ALL_VARIATIONS else 2  # rows of a pass

InFunctions = Literal["as often", "less often", "never", "once more"]


@dataclass(frozen=True, eq=False)  # compared by identity, so that results for a case can be cached
class Fires:
    """A model on which the pass takes effect, with the operators of the result in order."""

    name: str
    graph: str | Callable[[], ModelProto]
    operators: Sequence[str]
    effected: int = 1
    opset: int = 18
    ir_version: int = 10
    sizes: dict[str, int] = field(default_factory=dict)  # of symbolic dimensions; the default is 2
    edge_values: bool = True  # whether the inputs also have NaN, Inf and zeros
    zero_sizes: bool = True  # whether symbolic dimensions may be 0
    inside_if: bool = True  # whether the same graph is also tested in both branches of an If
    target: str = "onnxruntime-cpu"
    needs_vnni: bool = False  # whether the pass must not fire on a processor without VNNI


@dataclass(frozen=True)
class Stays:
    """A model that the pass leaves unchanged: refused for this reason (or for these reasons, if
    several patterns match), or not matched at all (None)."""

    name: str
    graph: str | Callable[[], ModelProto]
    reason: str | tuple[str, ...] | None
    opset: int = 18
    ir_version: int = 10
    valid: bool = True  # whether onnx.checker accepts the model
    target: str = "onnxruntime-cpu"


def with_vnni(cases: Sequence[Fires]) -> list[Fires]:
    """The same cases, but only for processors with VNNI. Another test of the pass must show that it
    does not fire without VNNI.
    """
    return [replace(case, needs_vnni=True) for case in cases]


def fires_param(case: Fires, *before: Pass) -> Any:
    """A case as a parameter of a test, perhaps after other parameters, which are passes."""
    name = ": ".join([*(pass_.name for pass_ in before), case.name])
    return pytest.param(*before, case, id=name, marks=[needs_vnni] if case.needs_vnni else [])


def most_different(cases: Sequence[Fires]) -> list[Fires]:
    """The cases, first one of each multiset of operators, then the second ones, and so on."""
    turns = {}
    seen = Counter[tuple[str, ...]]()
    for case in cases:
        text = case.graph if isinstance(case.graph, str) else f"= {case.name} ("
        structure = tuple(sorted(re.findall(r"= ([\w.]+) *[<(]", text)))
        turns[case] = seen[structure]
        seen[structure] += 1
    return sorted(cases, key=turns.__getitem__)


def assert_stays_without_vnni(
    name: str, case: Fires, module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that the pass is refused without VNNI. `module` is the module of fusionc that checks
    for VNNI on behalf of the pass.
    """
    monkeypatch.setattr(module, "has_vnni", lambda: False)
    _, counts = optimize(
        parse(case.graph, case.opset, case.ir_version), [pass_of(name)], case.target
    )
    assert [reason for count in counts for reason in count.refused] == [
        "without VNNI, products with these weights may saturate"
    ]


def load_tests_of(pass_: Pass) -> ModuleType:
    """The test file of a pass, with its tables."""
    *_, folder, name = type(pass_).__module__.split(".")
    return load_tests(Path(__file__).parent / "passes" / folder / f"test_{name}.py")


@cache
def load_tests(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pass_of(name: str) -> Pass:
    return next(p for p in PASSES if p.name == name)


def tables(
    name: str,
    stays: Sequence[Stays],
    fires: Sequence[Fires],
    in_functions: InFunctions = "as often",
) -> tuple[Any, Any]:
    """The two tests of a pass.

    `in_functions` compares the same graph inside a model-local function with the main graph:
    "never" if the pass always needs types or shapes, "less often" if it does in some cases.
    """
    assert in_functions in get_args(InFunctions)
    examined = most_different(fires)[:SAMPLE]
    varied = most_different(fires)[: 2 * SAMPLE]

    @pytest.mark.parametrize("case", list(map(fires_param, fires)))
    def test_fires(case: Fires) -> None:
        assert_fires(
            pass_of(name),
            case,
            in_functions,
            is_examined=case in examined,
            is_varied=case in varied,
        )

    vars(test_fires)["in_functions"] = in_functions  # for test_inside_functions
    return stays_table(name, stays), test_fires


def stays_table(name: str, stays: Sequence[Stays]) -> Any:
    """The one test of a pass that takes no effect by itself."""

    @pytest.mark.parametrize("case", stays, ids=[case.name for case in stays])
    def test_stays(case: Stays) -> None:
        assert_stays(pass_of(name), case)

    return test_stays


def assert_stays(pass_: Pass, case: Stays) -> None:
    model = parse(case.graph, case.opset, case.ir_version)
    if case.valid:
        onnx.checker.check_model(model, full_check=True)
    result, counts = optimize(model, [pass_], case.target)
    assert effected(counts) == 0
    reasons = {reason for count in counts for reason in count.refused}
    assert reasons == set((case.reason,) if isinstance(case.reason, str) else case.reason or ())
    assert result == model


def assert_fires(
    pass_: Pass,
    case: Fires,
    in_functions: InFunctions,
    *,
    is_examined: bool = True,
    is_varied: bool = True,
) -> None:
    """Assert everything about a case. If it `is_examined`, the rewrites are also checked
    individually, as with --check_rewrites. If it `is_varied`, the same graph is also tested in an If
    and in a function.
    """
    model = parse(case.graph, case.opset, case.ir_version)
    assert optimize(model, [])[0] == model, "switched off, the pass changes something"
    result = _assert_sound(
        pass_,
        model,
        model,
        case,
        Expected((case.effected,), "the pass, or `effected` of the case"),
        examine=RewriteChecker({}).examine if is_examined else None,
    )
    assert optimize(model, [pass_], case.target)[0].SerializeToString(
        deterministic=True
    ) == result.SerializeToString(deterministic=True), "not deterministic"
    found = [node.op_type for node in result.graph.node]
    assert found == list(case.operators), "mend the pass, or `operators` of the case"
    if is_varied and case.inside_if:
        twice = Expected((2 * case.effected,), "the pass, or `inside_if` of the case")
        _assert_sound(pass_, wrap_in_if(model), model, case, twice, seeds=2)
    if is_varied and can_have_constant_nodes(model):
        times = times_inside(in_functions, case.effected)
        inside = Expected(times, f"the pass, or `in_functions` of tables({pass_.name!r}, …)")
        _assert_sound(pass_, inside_function(model), model, case, inside, seeds=1)


@dataclass(frozen=True)
class Expected:
    """How often a pass may take effect on a model."""

    times: Collection[int]
    source: str  # what to mend if it takes effect another number of times


def times_inside(in_functions: InFunctions, times: int) -> Collection[int]:
    """How often a pass may take effect in a function if it does so `times` times in the main
    graph.
    """
    match in_functions:
        case "never":
            return (0,)
        case "less often":
            return range(times + 1)
        case "once more":
            return (times + 1,)
    return (times,)


def _assert_sound(
    pass_: Pass,
    model: ModelProto,
    reference: ModelProto,
    case: Fires,
    expected: Expected,
    seeds: int = 3,
    examine: Callable[..., None] | None = None,
) -> ModelProto:
    """The model after the pass. Asserts everything about it, including that it computes the same as
    the reference: the model itself, or the model of which it is a variant.
    """
    onnx.checker.check_model(model, full_check=True)
    result, counts = optimize(model, [pass_], case.target, examine)
    times = effected(counts)
    assert times in expected.times, f"took effect {times} times: mend {expected.source}"
    assert all(count.matched == count.effected + sum(count.refused.values()) for count in counts)
    onnx.checker.check_model(result, full_check=True)
    assert interface(result) == interface(model)
    assert_same_numbers(
        reference,
        result,
        pass_.numerics,
        case.sizes,
        edge_values=case.edge_values,
        seeds=seeds,
        called_like=model,
    )
    again, counts = optimize(result, [pass_], case.target)
    assert effected(counts) == 0, "a second run takes effect"
    assert again == result
    _assert_stamped(model, result, pass_.name)
    return result


def optimize(
    model: ModelProto,
    passes: Sequence[Pass],
    target: str = "onnxruntime-cpu",
    examine: Callable[..., None] | None = None,
) -> tuple[ModelProto, list[PatternCount]]:
    """A copy of the model after these passes, and their counts."""
    copy = ModelProto()
    copy.CopyFrom(model)
    if not passes:
        return write_back(typed_model(copy, "", target)), []
    graph = typed_model(copy, "", target)
    counts = run(graph, passes, RewriteLog(examine=examine))
    return write_back(graph), counts


def effected(counts: Sequence[PatternCount]) -> int:
    return sum(count.effected for count in counts)


def operators(model: ModelProto) -> Counter[str]:
    """The number of nodes of each operator, including nodes in subgraphs and functions."""
    return Counter(node.op_type for node in all_nodes(model))


def all_nodes(model: ModelProto) -> Iterator[onnx.NodeProto]:
    pending = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while pending:
        node = pending.pop(0)
        yield node
        for attribute in node.attribute:
            pending += [
                *attribute.g.node,
                *(inner for graph in attribute.graphs for inner in graph.node),
            ]


# -- models
#
#
#
# ------------------------------------------------------------------------------------------------------------


def parse(
    graph: str | Callable[[], ModelProto], opset: int = 18, ir_version: int = 10
) -> ModelProto:
    """A model from ONNX text. Initializers without a value are filled."""
    if callable(graph):
        return graph()
    header = f'<ir_version: {ir_version}, opset_import: ["" : {opset}, "com.microsoft" : 1]>\n'
    model: ModelProto = onnx.parser.parse_model(header + graph)
    domains = {node.domain for node in all_nodes(model)} - {""}
    if "com.microsoft" not in domains:
        del model.opset_import[1]
    for domain in sorted(domains - {"com.microsoft"}):
        model.opset_import.add(domain=domain, version=1)
    _fill(model.graph)
    if ir_version < 4:
        for tensor in model.graph.initializer:
            model.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return model


def _fill(graph: onnx.GraphProto) -> None:
    made = {name for node in graph.node for name in node.output}
    known = (
        made | {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    )
    for value in [value for value in graph.value_info if value.name not in known]:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        rng = np.random.default_rng(zlib.crc32(value.name.encode()))
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        graph.initializer.append(
            numpy_helper.from_array(rng.uniform(0.5, 1.5, dims).astype(dtype), value.name)
        )
        graph.value_info.remove(value)


def with_function(graph: str, name: str, body: str, opset: int = 18) -> onnx.ModelProto:
    """A model with one function of its own, in the domain "my". `name` may include parameters, as in
    F <a>.
    """
    model = parse(graph, opset)
    text = f'<domain: "my", opset_import: ["" : {opset}]> {name} (x) => (y) {{ {body} }}'
    model.functions.append(onnx.parser.parse_function(text))
    return model


def seen_by_subgraph(graph: str, value: str, value_type: str) -> str:
    """The same graph with an If whose two branches use this inner value."""
    head, _, body = graph.partition(") => (")
    branches = [
        f"{w}_branch = {w}_graph () => ({value_type} {w}) {{ {w} = Identity ({value}) }}"
        for w in ("then", "else")
    ]
    end = f"seen = If (which) <{', '.join(branches)}> }}"
    return f"{head}, bool which) => ({value_type} seen, {body.strip().removesuffix('}')} {end}"


def interface(model: ModelProto) -> list[Any]:
    initialized = (
        {tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set()
    )
    inputs = [value for value in model.graph.input if value.name not in initialized]
    return [
        model.ir_version,
        inputs,
        list(model.graph.output),
        [o for o in model.opset_import if not o.domain],
    ]


def _assert_stamped(model: ModelProto, result: ModelProto, pass_name: str) -> None:
    """Assert that every new or changed node names the pass that made it and its source nodes. Other
    names of inputs and outputs do not count as a change.
    """
    old = {_without_edges(node) for node in all_nodes(model)}
    for node in all_nodes(result):
        # a function's constants are nodes
        if node.op_type == "Constant" or _without_edges(node) in old:
            continue
        assert node.name
        if model.ir_version < 10:
            assert f"{PASS_KEY}={pass_name}; {FROM_KEY}=" in node.doc_string
        else:
            stamp = {p.key: p.value for p in node.metadata_props}
            assert stamp[PASS_KEY] == pass_name and stamp[FROM_KEY]


def _without_edges(node: onnx.NodeProto) -> bytes:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:], copy.output[:]
    for attribute in copy.attribute:  # the nodes of its subgraphs are compared separately
        attribute.ClearField("g")
        attribute.ClearField("graphs")
    return copy.SerializeToString(deterministic=True)


# -- numbers
#
#
#
# -----------------------------------------------------------------------------------------------------------


def assert_same_numbers(
    a: ModelProto,
    b: ModelProto,
    numerics: str,
    sizes: dict[str, int],
    *,
    edge_values: bool = True,
    seeds: int = 3,
    called_like: ModelProto | None = None,
) -> None:
    """Assert that both models give the same outputs on seeded inputs of two sizes, and on NaN,
    infinities and zeros.

    The inputs are those of `a`, or of `called_like`, which may have more inputs.
    """
    sessions = session(a), session(b)
    for seed in range(seeds):
        feeds = make_feeds(called_like or a, {**{"": 2 + seed % 2}, **sizes}, seed)
        compare(sessions, feeds, numerics)
        if edge_values:
            compare(
                sessions,
                {name: _with_edges(value, numerics) for name, value in feeds.items()},
                numerics,
            )


def session(model: ModelProto, *, has_arena: bool = True) -> onnxruntime.InferenceSession:
    """A session of onnxruntime without optimizers. Without its arena, it requests the memory of every
    value from the system.

    The sessions of the last models are cached, except for models in which a run affects the next.
    """
    has_memory = any(node.op_type in _REMEMBERING for node in all_nodes(model))
    make = _make_session if has_memory else _shared_session
    return make(model.SerializeToString(), has_arena)


def _make_session(model: bytes, has_arena: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = has_arena
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


_shared_session = lru_cache(maxsize=16)(_make_session)


def make_feeds(model: ModelProto, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    initialized = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for index, value in enumerate(v for v in model.graph.input if v.name not in initialized):
        rng = np.random.default_rng([seed, index])
        tensor = value.type.tensor_type
        dims = [
            d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param, sizes[""])
            for d in tensor.shape.dim
        ]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if dtype.kind == "b":
            feeds[value.name] = (
                np.asarray(rng.integers(0, 2, dims), bool) if dims else np.array(seed % 2 == 0)
            )
        elif dtype.kind in "iu":
            feeds[value.name] = np.asarray(rng.integers(0, 3, dims)).astype(dtype)
        elif dtype.kind == "O":
            feeds[value.name] = np.asarray(rng.integers(0, 3, dims)).astype(str).astype(dtype)
        else:
            feeds[value.name] = np.asarray(rng.standard_normal(dims)).astype(dtype)
    return feeds


def _with_edges(array: np.ndarray, numerics: str = "rounding") -> np.ndarray:
    if array.dtype.kind != "f" or not array.size:
        return array
    edges = array.copy()
    flat = edges.reshape(-1)
    step = max(1, flat.size // 5)
    flat[::step] = 0
    flat[1::step] = -0.0
    if numerics == "bitwise":  # other passes may lose the precision of subnormal numbers
        flat[2::step] = np.finfo(array.dtype).smallest_subnormal
    for position, value in ((0, np.nan), (flat.size // 2, np.inf), (flat.size - 1, -np.inf)):
        flat[position] = value
    return edges


def compare(
    sessions: Sequence[onnxruntime.InferenceSession], feeds: dict[str, Any], numerics: str
) -> None:
    expected, actual = (_outputs(s, feeds) for s in sessions)
    _assert_close(actual, expected, numerics)


def _signs(array: np.ndarray) -> np.ndarray:
    """Whether each number is negative, including −0. The sign of NaN does not count."""
    return np.signbit(array) & ~np.isnan(array)


def _outputs(session: onnxruntime.InferenceSession, feeds: dict[str, Any]) -> list[Any]:
    """All outputs for these feeds. Feeds that are not inputs of the model are ignored."""
    inputs = {value.name for value in session.get_inputs()}
    outputs: list[Any] = session.run(
        None, {name: value for name, value in feeds.items() if name in inputs}
    )
    return outputs


def _assert_close(actual: Sequence[Any], expected: Sequence[Any], numerics: str) -> None:
    for want, got in zip(expected, actual, strict=True):
        assert want.dtype == got.dtype and want.shape == got.shape
        if want.dtype.kind != "O" and want.tobytes() == got.tobytes():
            continue
        # onnxruntime computes float16 in float32, and may round between any two nodes
        is_half = want.dtype == np.float16
        if want.dtype.kind != "f" or (numerics == "bitwise" and not is_half):
            np.testing.assert_array_equal(got, want)
            if want.dtype.kind == "f":
                np.testing.assert_array_equal(
                    _signs(got), _signs(want), "the signs of zeros differ"
                )
            continue
        finite = np.abs(want[np.isfinite(want)].astype(np.float64))
        scale = float(finite.max()) if finite.size else 0.0
        tolerance = TOLERANCE[want.dtype.name] * scale
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                got.astype(np.float64), want.astype(np.float64), rtol=0, atol=tolerance
            )
