from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fusionc.errors import nearest
from fusionc.rewrite.definition import Pass
from fusionc.switches import PassNames


def test_the_registry_comes_first(registry: Sequence[Pass]) -> None:
    names = PassNames(registry)
    assert names.find("TbeConv2DReluv2Pass") == (registry[5],) and not names.is_ascend_only(
        "TbeConv2DReluv2Pass"
    )
    assert names.find("TfMergeSubFusionPass") == () and names.is_ascend_only("TfMergeSubFusionPass")
    assert names.find("None") == () and not names.is_ascend_only("None")


def test_a_name_may_stand_for_several_passes(make_pass: Callable[..., Pass]) -> None:
    first = make_pass("FirstPass", aliases=("both",))
    second = make_pass("SecondPass", aliases=("both", "2"))
    names = PassNames((first, second))
    assert names.find("both") == (first, second) and names.find("SecondPass") == (second,)
    assert names.aliases() == [("2", (second,)), ("both", (first, second))]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PRUNEPASS", "PrunePass"),
        ("softmx", "softmax"),
        ("TfMergSubFusionPass", "TfMergeSubFusionPass"),
        ("tbeconvelemwisefusion", "TbeConvElemwiseFusionPass"),
    ],
)
def test_the_nearest_name_may_be_a_pass_an_alias_or_ascends(
    registry: Sequence[Pass], name: str, expected: str
) -> None:
    assert (
        PassNames(registry).complaint(name) == f'"{name}" is not a pass; did you mean "{expected}"?'
    )


def test_of_names_that_differ_in_case_only_the_later_is_meant() -> None:
    assert nearest("batchmatmulpas", ["BatchMatmulPass", "BatchMatMulPass"]) == "BatchMatMulPass"
