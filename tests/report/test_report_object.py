from __future__ import annotations

from pathlib import Path

from fusionc.report import PassTotal, Report
from fusionc.rewrite.log import PatternCount


def test_counts_are_summed_by_pass_in_execution_order() -> None:
    report = Report(
        Path("in.onnx"),
        patterns=[
            PatternCount(0, "GraphFusion", "B", "b1", effected=2, refused={"shared": 1}, seconds=0.25),
            PatternCount(0, "UBFusion", "A", "a", refused={"no kernel": 3}),
            PatternCount(1, "GraphFusion", "B", "b1", effected=1, refused={"shared": 1, "dynamic": 4}, seconds=0.5),
            PatternCount(0, "GraphFusion", "B", "b2"),
        ],
        operators_before={"Conv": 3, "Relu": 2},
        operators_after={"Conv": 3},
    )
    assert report.passes() == [
        PassTotal("GraphFusion", "B", 3, {"shared": 2, "dynamic": 4}, 0.75),
        PassTotal("UBFusion", "A", 0, {"no kernel": 3}, 0.0),
    ]
    assert [total.matched for total in report.passes()] == [9, 3]
    assert (report.effected, report.nodes_before, report.nodes_after) == (3, 5, 3)
