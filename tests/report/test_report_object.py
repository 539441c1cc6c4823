from __future__ import annotations

from pathlib import Path

from fusionc.report import PassTotal, Report
from fusionc.rewrite.log import PatternCount


def test_counts_are_summed_by_pass_in_execution_order() -> None:
    report = Report(
        Path("in.onnx"),
        patterns=[
            PatternCount(
                0, "GraphFusion", "B", "b1", effected=2, refused={"shared": 1}, seconds=0.25
            ),
            PatternCount(0, "UBFusion", "A", "a", refused={"no kernel": 3}),
            PatternCount(
                1,
                "GraphFusion",
                "B",
                "b1",
                effected=1,
                refused={"shared": 1, "dynamic": 4},
                seconds=0.5,
            ),
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


def test_as_text_it_says_in_short_what_was_done() -> None:
    counts = [
        PatternCount(0, "GraphFusion", "B", "b", effected=2),
        PatternCount(0, "UBFusion", "A", "a"),
    ]
    report = Report(
        patterns=counts,
        operators_before={"Relu": 2},
        operators_after={"Relu": 1},
        notices=["mind this"],
    )
    assert str(report).splitlines() == [
        "passes        B 2",
        "nodes         2 -> 1",
        "verification  skipped",
        "notice        mind this",
    ]
