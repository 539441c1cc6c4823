"""Passes that search by themselves, made to collect all matches before the first is committed.

By the time the engine comes to a match, a part of it may have gone: then it is dropped and searched anew, never used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace

import onnx
import pytest
from harness import Fires, assert_same_numbers, effected, fires_param, optimize, parse
from onnx import ModelProto, compose
from test_variations import load_fires

from fusionc.model.graph import Graph
from fusionc.passes import PASSES
from fusionc.rewrite import Match, Pass

SEARCHING = [
    p
    for p in PASSES
    if p.name != "AutomaticUbFusion" and any(pattern.find for pattern in p.patterns)
]
CASES = [fires_param(case, p) for p in SEARCHING for case in load_fires(p)]


def eager(pass_: Pass) -> Pass:
    """The same pass, of which every search is done before anything is rewritten."""

    def collected(find: Callable[[Graph], Iterable[Match]]) -> Callable[[Graph], list[Match]]:
        return lambda graph: list(find(graph))

    changed = copy.copy(pass_)
    patterns = (
        replace(p, find=None if p.find is None else collected(p.find)) for p in pass_.patterns
    )
    changed.__dict__["patterns"] = tuple(patterns)
    return changed


def twice(model: ModelProto) -> ModelProto:
    """The model, and once more on its own outputs, as far as these have the type of an input."""
    again = compose.add_prefix(model, "again_")
    free = list(again.graph.input)
    links = []
    for output in model.graph.output:
        fitting = next((value for value in free if value.type == output.type), None)
        if fitting is not None:
            free.remove(fitting)
            links.append((output.name, fitting.name))
    joined = compose.merge_models(model, again, io_map=links) if links else model
    del joined.graph.value_info[:]
    return joined


@pytest.mark.parametrize(("pass_", "case"), CASES)
def test_a_pass_may_collect_its_matches_first(pass_: Pass, case: Fires) -> None:
    model = twice(parse(case.graph, case.opset, case.ir_version))
    result, counts = optimize(model, [eager(pass_)], case.target)
    expected, wanted = optimize(model, [pass_], case.target)
    assert all(count.matched == count.effected + sum(count.refused.values()) for count in counts)
    assert effected(counts) == effected(wanted) > 0
    assert sorted(node.op_type for node in result.graph.node) == sorted(
        node.op_type for node in expected.graph.node
    )
    onnx.checker.check_model(result, full_check=True)
    assert_same_numbers(
        model, result, pass_.numerics, case.sizes, edge_values=case.edge_values, seeds=1
    )
