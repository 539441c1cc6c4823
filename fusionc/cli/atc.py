"""ATC's habits: how it spells options, and the options of its that mean nothing here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

import click

from fusionc.graph_kernel.flag_table import EFFECTIVE, WITHOUT_EFFECT

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])

_WITHOUT_EFFECT = """
ac_parallel_enable aicore_num allow_hf32 atomic_clean_policy auto_tune_mode buffer_optimize build_config check_report
cluster_config compression_optimize_conf core_type customize_dtypes debug_dir deterministic deterministic_level
disable_reuse_memory display_model_info dump_mode dynamic_batch_size dynamic_dims dynamic_image_size
enable_attr_compression enable_compress_weight enable_scope_fusion_passes enable_single_stream enable_small_channel
h2d_overlapped_with_compute hccl_sub_comm_config host_env_cpu host_env_os input_format input_fp16_nodes
input_shape_range insert_op_conf is_input_adjust_hw_layout is_output_adjust_hw_layout is_weight_clip jit_compile
keep_dtype mdl_bank_path modify_mixlist multi_stream_parallel_mode om oo_constant_folding oo_dead_code_elimination
oo_level op_bank_path op_compiler_cache_dir op_compiler_cache_mode op_debug_config op_debug_level op_name_map
op_precision_mode op_select_implmode optypelist_for_implmode out_nodes output_type precision_mode precision_mode_v2
quant_dumpable raw_ge_options raw_ge_options_ignore_unsupported shape_generalized_build_mode singleop soc_version
sparsity static_model_ops_lower_limit status_check tiling_schedule_optimize topo_sorting_mode virtual_type weight
"""
_BOOLEANS = dict.fromkeys(("0", "f", "false", "n", "no"), 0) | dict.fromkeys(("1", "t", "true", "y", "yes"), 1)
_GIVEN = "fusionc.without_effect"


class AtcCommand(click.Command):
    """A command that takes ATC's spelling of options: `-model`, `--fusion-switch-file`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        try:
            return super().parse_args(ctx, respelled(args, options))
        except click.NoSuchOption as error:
            name = _key(error.option_name)
            if name in (*EFFECTIVE, *WITHOUT_EFFECT) and any(option.name == "graph_kernel_flags" for option in options):
                what = f'--{name} is a flag of graph kernel fusion: --graph_kernel_flags "--{name}=..."'
                raise click.UsageError(what, ctx) from error
            raise


def atc_bool(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """A click callback for ATC's booleans: 1, t, true, y, yes and 0, f, false, n, no become 1 and 0."""
    if value is None:
        return None
    if value.lower() not in _BOOLEANS:
        raise click.BadParameter(f"{value!r} is not a boolean; use 0 or 1.")
    return _BOOLEANS[value.lower()]


def options_without_effect(command: _Decorated) -> _Decorated:
    """Accept ATC's other options, hidden, so that a command line written for ATC runs as it is."""
    for name in _WITHOUT_EFFECT.split():
        command = click.option(f"--{name}", hidden=True, expose_value=False, callback=_remember)(command)
    return command


def notices(ctx: click.Context) -> list[str]:
    """At most one notice: which options had no effect."""
    given = ctx.meta.get(_GIVEN)
    return [f"accepted, no effect: {', '.join(given)}"] if given else []


def respelled(args: list[str], options: Sequence[click.Option]) -> list[str]:
    """`args` with every option named as it is declared. Values are left alone, whatever they begin with."""
    declared = {_key(name): (name, option) for option in options for name in option.opts if len(name) > 2}
    result: list[str] = []
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if arg == "--":
            result += [arg, *rest]
        elif len(name) < 3 or not name.startswith("-"):
            result.append(arg)
        else:
            spelling, option = declared.get(_key(name), (f"--{name.lstrip('-')}", None))
            result.append(spelling + equals + value)
            if option is not None and not option.is_flag and not equals:
                result += islice(rest, 1)
    return result


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta.setdefault(_GIVEN, []).append(parameter.opts[0])
