"""ATC's options that fusionc has not: refused or without effect, never both, never unknown."""

from __future__ import annotations

from typing import Any

import click
import pytest

from fusionc.cli.atc_options import IGNORED, REFUSED
from fusionc.cli.convert_command import command

# Every option of ATC's command line, as its documentation and its source list them.
OF_ATC = """
ac_parallel_enable aicore_num allow_hf32 atomic_clean_policy auto_tune_mode buffer_optimize
build_config cal_conf check_report cluster_config compress_weight_conf compression_optimize_conf
core_type customize_dtypes debug_dir deterministic deterministic_level device_id
disable_reuse_memory display_model_info dump_mode dynamic_batch_size dynamic_dims dynamic_image_size
enable_attr_compression enable_compress_weight enable_scope_fusion_passes enable_single_stream
enable_small_channel export_compile_stat external_weight framework fusion_switch_file
h2d_overlapped_with_compute hccl_sub_comm_config help host_env_cpu host_env_os input_format
input_fp16_nodes input_hint_shape input_shape input_shape_range insert_op_conf
is_input_adjust_hw_layout is_output_adjust_hw_layout is_weight_clip jit_compile json keep_dtype log
mdl_bank_path mode model modify_mixlist multi_stream_parallel_mode om oo_constant_folding
oo_dead_code_elimination oo_level op_bank_path op_compiler_cache_dir op_compiler_cache_mode
op_debug_config op_debug_level op_name_map op_precision_mode op_select_implmode optimization_switch
optypelist_for_implmode out_nodes output output_type precision_mode precision_mode_v2 quant_dumpable
raw_ge_options raw_ge_options_ignore_unsupported save_original_model shape_generalized_build_mode
singleop soc_version sparsity static_model_ops_lower_limit status_check tiling_schedule_optimize
topo_sorting_mode virtual_type weight
"""
WITHOUT_EFFECT = [name for names in IGNORED.values() for name in names.split()]


def test_every_option_of_atc_is_known() -> None:
    known = {
        option.removeprefix("--") for parameter in command.params for option in parameter.opts
    } | {"help"}
    assert set(OF_ATC.split()) <= known


def test_an_option_has_one_meaning() -> None:
    shown = {p.name for p in command.params if isinstance(p, click.Option) and not p.hidden}
    assert len(WITHOUT_EFFECT) == len(set(WITHOUT_EFFECT))
    assert not set(WITHOUT_EFFECT) & REFUSED.keys()
    assert not shown & {*WITHOUT_EFFECT, *REFUSED}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_the_result_is_refused(run: Any, fake_convert: Any, name: str) -> None:
    result = run("convert", "--model=in.onnx", f"--{name}=force_fp16")
    assert (result.exit_code, fake_convert.calls) == (2, [])
    what, where, hint = result.stderr.splitlines()
    assert (
        what.startswith(f"E10001: --{name} asks for ") and where == f"  where: --{name}=force_fp16"
    )
    assert hint == f"  to do: {REFUSED[name].instead}"


@pytest.mark.parametrize(
    "word",
    [
        "--enable_compress_weight=false",
        "--is_input_adjust_hw_layout=false,false",
    ],
)  # fmt: skip
def test_what_is_so_anyway_is_not_refused(run: Any, fake_convert: Any, word: str) -> None:
    assert run("convert", "--model=in.onnx", word).exit_code == 0
    assert "is accepted, but has no effect" in fake_convert.report.notices[-1]


@pytest.mark.parametrize(
    "word",
    [
        "--is_input_adjust_hw_layout=false,true",
    ],
)
def test_one_value_that_asks_for_something_is_enough(
    run: Any, fake_convert: Any, word: str
) -> None:
    assert run("convert", "--model=in.onnx", word).exit_code == 2 and fake_convert.calls == []


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_what_does_not_change_the_result_is_told(run: Any, fake_convert: Any, name: str) -> None:
    assert run("convert", "--model=in.onnx", f"--{name}=1").exit_code == 0
    assert fake_convert.report.notices[-1] == f"--{name} is accepted, but has no effect"
