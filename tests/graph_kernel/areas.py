"""Areas from ONNX text, and both ways to run them: as a plain model, and as one operator with a
generated kernel.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from fusionc.graph_kernel.area import Area, AreaValue
from fusionc.graph_kernel.c.compile import Unit
from fusionc.graph_kernel.c.source import units
from fusionc.graph_kernel.library import build_library
from fusionc.graph_kernel.library.build_library import Built
from fusionc.graph_kernel.select.make_area import function_of
from fusionc.model.operators import KERNELS
from fusionc.runtime.processor import linux_flags
from fusionc.verify.order_dependence import OrderDependence, settled

CHAIN = "g (float[N] x, float[M] y) => (float[K] z) { a = Add(x, y) z = Mul(a, x) }"
NORM = "g (float[N,C] x, float[C] s) => (float[N,C] z) { z = LayerNormalization(x, s) }"
Feeds = Mapping[str, np.ndarray]
# The functions of a loop in kernel.h: for each kind of processor, and the list of all.
_BODIES = (
    "  GK_BODY(name, 0, 0, fast)         \\\n",
    "  GK_AVX2 GK_BODY(name, 1, 1, fast) \\\n",
    "  GK_AVX512 GK_BODY(name, 2, 1, fast)\n",
)
_LIST = "GK_FAST(name) name##_0, name##_1, name##_2\n"
_AVX2 = {"AVX2", "FMA", "F16C"}
_AVX512 = _AVX2 | {"AVX512F", "AVX512DQ", "AVX512BW", "AVX512VL"}


def area_of(
    text: str,
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    name: str = "area",
    opset: int = 22,
) -> Area:
    """An area from a graph in ONNX's text form, with the inputs and outputs of the graph. The types
    of inner values are inferred.
    """
    graph = onnx.parser.parse_graph(text)
    constants = dict(constants or {})
    for initializer in graph.initializer:
        constants[initializer.name] = numpy_helper.to_array(initializer)
    return area_of_graph(graph, constants, name, opset)


def area_of_graph(
    graph: onnx.GraphProto, constants: Mapping[str, np.ndarray], name: str, opset: int
) -> Area:
    """The same from a GraphProto. Each unknown dimension gets a new symbol."""
    inner = onnx.GraphProto()
    inner.CopyFrom(graph)
    del inner.initializer[:]
    inner.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in constants.items()
    )
    model = helper.make_model(inner, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    values = {}
    for info in [*inferred.input, *inferred.value_info, *inferred.output]:
        tensor = info.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
        dims = [dim if dim != "" else f"{info.name}_{k}" for k, dim in enumerate(dims)]
        values[info.name] = AreaValue(info.name, tensor.elem_type, tuple(dims))
    return Area(
        name=name,
        nodes=tuple(graph.node),
        inputs=tuple(i.name for i in graph.input),
        outputs=tuple(o.name for o in graph.output),
        values=values,
        opset=opset,
        constants=dict(constants),
    )


def _infos(area: Area, names: Sequence[str]) -> list[onnx.ValueInfoProto]:
    """Declarations without sizes."""
    values = [area.values[name] for name in names]
    return [helper.make_tensor_value_info(v.name, v.dtype, [None] * len(v.shape)) for v in values]


def build_for_here(areas: Sequence[Area]) -> Built:
    """Build kernels that run on this processor only. The compiler takes a third of the time, because
    it compiles loops for one kind of processor.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_library, "units", lambda areas: list(map(_for_here, units(areas))))
        return build_library.build(areas)


def _for_here(unit: Unit) -> Unit:
    flags = linux_flags()
    kind = 2 if flags >= _AVX512 else 1 if flags >= _AVX2 else 0
    assert _LIST in unit.text and "".join(_BODIES) in unit.text
    text = unit.text.replace(_LIST, re.sub(r"_\d", f"_{kind}", _LIST))
    return replace(unit, text=text.replace("".join(_BODIES), _BODIES[kind].replace("\\", "")))


def plain_model(area: Area) -> onnx.ModelProto:
    """The operators of an area as a model."""
    graph = helper.make_graph(
        list(area.nodes),
        area.name,
        _infos(area, area.inputs),
        _infos(area, area.outputs),
        [numpy_helper.from_array(array, name) for name, array in area.constants.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", area.opset)], ir_version=10
    )


def kernel_model(area: Area) -> onnx.ModelProto:
    """A model with one node that calls the area's operator. The body of its function has the area's
    operators.
    """
    graph = helper.make_graph(
        [helper.make_node(area.name, list(area.inputs), list(area.outputs), domain=KERNELS)],
        area.name,
        _infos(area, area.inputs),
        _infos(area, area.outputs),
    )
    imports = [helper.make_opsetid("", area.opset), helper.make_opsetid(KERNELS, 1)]
    return helper.make_model(
        graph, opset_imports=imports, functions=[function_of(area)], ir_version=10
    )


def session(
    model: onnx.ModelProto,
    library: Path | None = None,
    *,
    threads: int = 2,
    is_optimized: bool = False,
) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    # threads that wait would take the processor from the other tests
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not is_optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if library:
        options.register_custom_ops_library(str(library))
    return ort.InferenceSession(model.SerializeToString(), options)


def differences(wanted: Sequence[np.ndarray], got: Sequence[np.ndarray], share: float = 0.0) -> str:
    """A description of the first difference, or "". NaN equals NaN. A float may be off by this share
    of itself, or of the largest element.
    """
    for k, (one, other) in enumerate(zip(wanted, got, strict=True)):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"output {k}: {one.dtype}{one.shape}, got {other.dtype}{other.shape}"
        if not share or one.dtype.kind not in "fe":
            if not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
                return f"output {k}: {_where(one, other, one != other)}"
            continue
        a = one.astype(np.float64)
        b = other.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        scale = np.abs(a[finite]).max(initial=0.0)
        with np.errstate(invalid="ignore"):
            wrong = np.where(
                finite, np.abs(a - b) > share * (np.abs(a) + min(scale, 1.0) * 1e-1), ~_alike(a, b)
            )
        if wrong.any():
            return f"output {k}: {_where(one, other, wrong)}"
    return ""


def settled_by(
    model: onnx.ModelProto, feeds: Feeds, wanted: Sequence[np.ndarray], got: Sequence[np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of outputs. Elements that depend on the order of a reduction in this model are made
    equal.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plain.onnx")
        onnx.save(model, path)
        reaches = OrderDependence(path).reaches(feeds, wanted)
    return [settled(*values) for values in zip(wanted, got, reaches, strict=True)]


def _alike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def _where(one: np.ndarray, other: np.ndarray, wrong: np.ndarray) -> str:
    at = np.argwhere(np.atleast_1d(wrong))[:3].tolist()
    pairs = [(np.atleast_1d(one)[tuple(i)], np.atleast_1d(other)[tuple(i)]) for i in at]
    return f"{int(wrong.sum())} of {one.size} differ, at {at}: {pairs}"


def random_array(
    rng: np.random.Generator, dtype: int, shape: Sequence[int], *, edges: bool = True
) -> np.ndarray:
    """Numbers around 0, and with `edges` also some of 0, NaN and infinities."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind.kind in "iu":
        low = 0 if kind.kind == "u" else -9
        return np.asarray(rng.integers(low, 10, shape)).astype(kind)
    array = np.asarray(rng.standard_normal(shape) * rng.choice([0.5, 2.0, 5.0])).astype(kind)
    if edges and array.size:
        flat = array.reshape(-1)
        for value in (np.nan, np.inf, -np.inf, 0.0, -0.0):
            if rng.random() < 0.5:
                flat[rng.integers(flat.size)] = value
    return array
