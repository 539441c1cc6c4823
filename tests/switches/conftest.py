"""A small registry for tests of switches, independent of the passes in the real registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fusionc.rewrite.definition import Pass

PassMaker = Callable[..., Pass]


@pytest.fixture(scope="session")
def make_pass() -> PassMaker:
    def make(
        name: str, *, kind: str = "GraphFusion", default: str = "on", aliases: tuple[str, ...] = ()
    ) -> Pass:
        fields = {
            "kind": kind,
            "default": default,
            "aliases": aliases,
            "__doc__": f"The pass {name}.",
        }
        return type(name, (Pass,), fields)()

    return make


@pytest.fixture(scope="session")
def registry(make_pass: PassMaker) -> Sequence[Pass]:
    return (
        make_pass("PrunePass", default="must"),
        make_pass("SoftmaxSmallOpFusionPass", aliases=("SoftmaxFusionPass", "softmax")),
        make_pass("MatMulBiasAddFusionPass"),
        make_pass("SubFusionPass", default="off"),
        make_pass("AABiasaddConvFusion", default="must"),
        make_pass("TbeConvElemwiseFusionPass", kind="UBFusion", aliases=("TbeConv2DReluv2Pass",)),
        make_pass("FastGeluFusionPass", kind="UBFusion", default="off"),
    )
