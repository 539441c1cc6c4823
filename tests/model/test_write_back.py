"""What a pass has made goes into the proto, and is there alone from then on."""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

import numpy as np
import onnx
from harness import optimize, parse, pass_of, with_function
from onnx import TensorProto, helper

from fusionc.model.build import add_value, build
from fusionc.model.graph import Constant
from fusionc.model.write_back import write_back
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model


def test_a_new_constant_is_not_in_memory_twice() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    proto = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = build(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 18)]), "")
    array = np.arange(4, dtype=np.float32)
    add_value(model.main, Constant("c", model.main, array))
    model.main.changed = True
    held = weakref.ref(array)
    del array
    (written,) = write_back(model).graph.initializer
    assert held() is None
    assert onnx.numpy_helper.to_array(written).tolist() == [0, 1, 2, 3]


def test_an_operator_set_is_imported_where_it_is_used() -> None:
    """By a function for its subgraphs, too, which have its imports; once, and in a stable order."""
    body = """c = Constant <value = bool {1}> ()  y = If (c) <then_branch = t () => (float[m] p) { p = Neg (x) },
        else_branch = e () => (float[m] q) { q = Abs (x) }>"""
    model = build(
        with_function("agraph (float[3] x) => (float[3] y) { y = my.F (x) }", "F", body), ""
    )
    branch = next(graph for graph in model.graphs if graph.parent is not None)
    for domain in ("com.microsoft", "another"):
        branch.opsets[domain] = 1
    for _ in range(2):
        written = write_back(model)
        assert [entry.domain for entry in written.functions[0].opset_import] == [
            "",
            "another",
            "com.microsoft",
        ]
        assert [entry.domain for entry in written.opset_import] == ["", "my"]


def test_a_declaration_of_nothing_is_none_of_a_new_value() -> None:
    model = parse(
        "agraph (float[2] x) => (float[2] y) <float[2] c = {1,2}> { a = Mul (x, c) y = Mul (a, c) }"
    )
    model.graph.value_info.append(helper.make_tensor_value_info("c_fused", TensorProto.INT64, [5]))
    result, _ = optimize(model, [pass_of("ConstantReassociationPass")])
    (constant,) = result.graph.initializer
    assert constant.name not in {info.name for info in result.graph.value_info}


SWISH = """agraph (float[N,S,4] x) => (float[N,M,4] y) { s = Concat <axis = 1> (x, x) e = Sigmoid (s) k = Mul (s, e)
    y = Neg (k) }"""


def test_what_onnx_does_not_infer_is_declared_behind_operators_that_a_pass_has_made() -> None:
    """Dimensions that only the conversion has a name for stay open."""
    written, _ = optimize(parse(SWISH), [pass_of("QuickGeluFusionPass")])
    assert [node.op_type for node in written.graph.node] == ["Concat", "QuickGelu", "Neg"]
    (info,) = written.graph.value_info
    assert info == helper.make_tensor_value_info("k", TensorProto.FLOAT, ["N", None, 4])
    assert optimize(written, [pass_of("QuickGeluFusionPass")])[0] == written


def test_what_was_there_is_not_declared() -> None:
    text = "agraph (float[N,4] x) => (float[N,4] y) { h = com.microsoft.QuickGelu (x) k = Identity (h) y = Neg (k) }"
    written, _ = optimize(parse(text), [pass_of("IdentityPass")])
    assert len(written.graph.node) == 2 and not written.graph.value_info


def test_declaring_is_linear_in_the_nodes_that_passes_have_made() -> None:
    """Steps of Python are counted: time would depend on the machine."""
    once, twice = (_steps_of_declaring(count) for count in (100, 200))
    assert twice < 2.5 * once


def _steps_of_declaring(count: int) -> int:
    chain = " ".join(f"s{k} = Sigmoid (h{k}) h{k + 1} = Mul (h{k}, s{k})" for k in range(count))
    text = f"agraph (float[4] h0) => (float[4] y) {{ {chain} y = Neg (h{count}) }}"
    model = typed_model(parse(text), "")
    run(model, [pass_of("QuickGeluFusionPass")], RewriteLog())
    steps = 0

    def step(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return step if frame.f_code.co_filename == write_back.__code__.co_filename else None

    former = sys.gettrace()
    sys.settrace(step)
    try:
        written = write_back(model)
    finally:
        sys.settrace(former)
    assert len(written.graph.value_info) == count
    return steps
