"""The models of the passes' own tests: whatever becomes an area there, the answers stay."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from fused import fuse
from harness import (
    SAMPLE,
    Fires,
    assert_same_numbers,
    interface,
    load_tests,
    most_different,
    parse,
)

from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.select.operator_kinds import CLUSTER, EXPAND

FILES = sorted((Path(__file__).parent.parent / "passes").glob("*/test_*.py"))
FLAGS = [
    Flags(opt_level=1),
    Flags(opt_level=3, enable_expand_ops=tuple(sorted(EXPAND | {"Softmax"}))),
    Flags(opt_level=2, enable_stitch_fusion=False, disable_cluster_ops=tuple(sorted(CLUSTER))[::7]),
]


def cases_of(file: Path) -> list[Fires]:
    """Rows of a pass that differ in their operators."""
    return most_different(getattr(load_tests(file), "FIRES", []))[: 2 * SAMPLE]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_answers_stay(file: Path) -> None:
    for number, case in enumerate(cases_of(file), FILES.index(file)):
        model = parse(case.graph, case.opset, case.ir_version)
        flags = FLAGS[number % len(FLAGS)]
        result, fused = fuse(model, flags, reason_against=reason_against)
        if not fused.areas:
            assert result == model or flags.opt_level == 3
            continue
        onnx.checker.check_model(result, full_check=True)
        assert interface(result)[1:] == interface(model)[1:]
        assert_same_numbers(model, result, "rounding", case.sizes, edge_values=False)
