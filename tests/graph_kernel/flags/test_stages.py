"""The stage passes and what enable_pass and disable_pass reach."""

from __future__ import annotations

import re

import pytest
from fused import DEFAULT

from fusionc.graph_kernel.flag_warnings import unknown_passes
from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.flags.stages import STAGE_PASSES, Stages, switched, write_passes
from fusionc.passes import PASSES


class Lines(list[str]):
    def info(self, function: str, message: str) -> None:
        self.append(message)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (Flags(opt_level=1), "1.3 1.5 3.4 6.5 8.0"),
        (Flags(opt_level=2), "1.3 1.5 2.4 2.7 2.8 3.4 6.5 8.0"),
        (Flags(opt_level=3), "1.3 1.4 1.5 2.4 2.7 2.8 3.4 6.5 8.0"),
        (
            Flags(opt_level=2, enable_parallel_op_combine=True),
            "1.3 1.4 1.5 2.4 2.7 2.8 3.4 6.5 8.0",
        ),
        (
            Flags(opt_level=2, disable_pass=("2.4", "highlevelopt1.graph_kernel_cse")),
            "1.3 1.5 2.8 3.4 6.5 8.0",
        ),
        (Flags(opt_level=1, enable_pass=("2.4",)), "1.3 1.5 2.4 3.4 6.5 8.0"),
        (
            Flags(opt_level=2, enable_pass=("2.4",), disable_pass=("2.4",)),
            "1.3 1.5 2.7 2.8 3.4 6.5 8.0",
        ),
        (
            Flags(opt_level=2, disable_pass=("arithmetic_simplify", "2")),
            "1.3 1.5 2.4 2.7 2.8 3.4 6.5 8.0",
        ),
    ],
)
def test_which_stage_passes_run(flags: Flags, expected: str) -> None:
    stages = Stages(flags)
    assert [p.names[0] for p in STAGE_PASSES if stages.runs(p)] == expected.split()


def test_every_pass_of_the_registry_can_be_switched() -> None:
    everything = tuple(p.name for p in PASSES)
    assert switched(PASSES, DEFAULT, Flags(disable_pass=everything)) == set()
    assert switched(PASSES, DEFAULT, Flags(enable_pass=everything)) == set(everything)
    assert switched(PASSES, DEFAULT, Flags()) == DEFAULT


@pytest.mark.parametrize(
    "name", ["split_concat_fusion", "fusion_group.split_concat_fusion", "SplitConcatFusionPass"]
)
def test_names_aliases_and_managers(name: str) -> None:
    flags = Flags(disable_pass=(name,))
    assert DEFAULT - switched(PASSES, DEFAULT, flags) == {"SplitConcatFusionPass"}
    assert not unknown_passes(PASSES, flags)


def test_a_name_that_is_none_gets_a_warning() -> None:
    flags = Flags(enable_pass=("Unheard", "ConvBatchnormFusionPas"), disable_pass=("4.4", "3.4"))
    assert unknown_passes(PASSES, flags) == [
        'graph kernel pass enable flag "Unheard" is not valid!',
        'graph kernel pass enable flag "ConvBatchnormFusionPas" is not valid! Did you mean "ConvBatchnormFusionPass"?',
        'graph kernel pass disable flag "4.4" is not valid!',
    ]


def test_the_last_part_of_a_stage_pass_gets_its_full_name() -> None:
    assert unknown_passes(PASSES, Flags(disable_pass=("graph_kernel_cse",))) == [
        'graph kernel pass disable flag "graph_kernel_cse" is not valid! Did you mean "highlevelopt1.graph_kernel_cse"?'
    ]


def test_the_lines_of_the_stages() -> None:
    stages = Stages(Flags(opt_level=1))
    lines = Lines()
    with stages.timed(STAGE_PASSES[0]):
        stages.note_change(STAGE_PASSES[0])
    stages.write(lines)
    assert lines[0] == "graph kernel pass stage1_cluster_3_graph_kernel_expander is enabled."
    assert re.fullmatch(
        r"Run graph kernel pass stage1_cluster_3_graph_kernel_expander in \d+\.\d\d us", lines[1]
    )
    assert lines[2] == "graph kernel pass stage1_cluster_3_graph_kernel_expander changed."
    assert "graph kernel pass stage2_highlevelopt1_4_arithmetic_simplify is disabled." in lines


def test_the_names_of_mindspore_are_in_the_lines() -> None:
    lines = Lines()
    passes = [
        p for p in PASSES if p.name in ("AddLayerNormFusionPass", "ATbeMatMulElemwiseFusionPass")
    ]
    write_passes(passes, frozenset({"ATbeMatMulElemwiseFusionPass"}), {}, lines)
    assert lines == [
        "graph kernel passes: "
        "AddLayerNormFusionPass,add_layer_norm_fusion,add_layer_norm_v3_fusion,"
        "add_layer_norm_ext_fusion,ATbeMatMulElemwiseFusionPass,matmul_elemwise_fusion.",
        "graph kernel pass fusion_group_0_AddLayerNormFusionPass is disabled.",
        "graph kernel pass fusion_group_0_add_layer_norm_fusion is disabled.",
        "graph kernel pass fusion_group_0_add_layer_norm_v3_fusion is disabled.",
        "graph kernel pass fusion_group_0_add_layer_norm_ext_fusion is disabled.",
        "Run graph kernel pass fusion_group_1_ATbeMatMulElemwiseFusionPass in 0.00 us",
        "Run graph kernel pass fusion_group_1_matmul_elemwise_fusion in 0.00 us",
    ]


def test_the_list_of_passes() -> None:
    lines = Lines()
    write_passes(PASSES[:2], frozenset({PASSES[0].name}), {PASSES[0].name: 0.5}, lines)
    assert lines == [
        f"graph kernel passes: {PASSES[0].name},{PASSES[1].name}.",
        f"Run graph kernel pass fusion_group_0_{PASSES[0].name} in 500000.00 us",
        f"graph kernel pass fusion_group_1_{PASSES[1].name} is disabled.",
    ]
