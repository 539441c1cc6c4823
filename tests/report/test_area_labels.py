from __future__ import annotations

import onnx
from onnx import helper

from fusionc.report.area_labels import area_labels


def area(name: str, operators: int, domain: str = "fusionc.gk") -> onnx.FunctionProto:
    nodes = [helper.make_node("Relu", [f"v{n}"], [f"v{n + 1}"]) for n in range(operators)]
    constant = helper.make_node("Constant", [], ["c"], value_int=1)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_function(domain, name, ["v0"], ["v1"], [constant, *nodes], opsets)


def test_labels_are_short_and_in_the_order_of_the_model() -> None:
    graph = helper.make_graph([], "g", [], [])
    long = "_".join(["Conv"] * 27)
    areas = [
        area(f"{long}_blocked_0123456789ab", 27),
        area("Relu", 1, "mine"),
        area("Relu_split_ba9876543210", 1),
        area("of_another_version", 2),
    ]
    assert area_labels(helper.make_model(graph, functions=areas)) == {
        f"{long}_blocked_0123456789ab": "area 1: 27 operators, blocked",
        "Relu_split_ba9876543210": "area 2: 1 operator, split",
        "of_another_version": "area 3: 2 operators",
    }
    assert area_labels(helper.make_model(graph)) == {}
