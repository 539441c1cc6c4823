"""The plan of a conversion: the passes, requests and kernels that its options ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fusionc.attempt.switch_notices import ignored_variables, switch_notices
from fusionc.custom.loading import load_passes
from fusionc.errors import UsageError, choice_text
from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.flags.read_flags import read_flags
from fusionc.graph_kernel.flags.stages import disabled_by, is_echoed, switched
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.options import Options
from fusionc.passes import PASSES
from fusionc.report import Plog
from fusionc.requested.aipp.aipp_file import aipp_blocks
from fusionc.requested.float16.customized_types import CustomizedTypes
from fusionc.requested.float16.mixed_lists import MixedLists
from fusionc.requested.float16.precision_modes import (
    MIXED_BFLOAT16,
    MIXED_FLOAT16,
    MODES,
    ORIGIN,
)
from fusionc.requested.float16.precision_policy import PrecisionPolicy
from fusionc.requested.kept_nodes import KeptNodes
from fusionc.requested.kept_types import KeptTypes
from fusionc.requested.requests import Requests
from fusionc.requested.size_profiles import size_profiles
from fusionc.requested.types_of_a_run import TypesOfARun
from fusionc.rewrite import Pass
from fusionc.runtime.custom_operators import require_loadable
from fusionc.runtime.processor import has_bfloat16
from fusionc.switches import Levels, Switches, decide

if TYPE_CHECKING:
    from fusionc.graph_kernel.fusion import GraphKernelFusion


@dataclass(frozen=True)
class ConversionPlan:
    """What the user asked for. Nothing here depends on the contents of the model."""

    options: Options
    passes: tuple[Pass, ...]  # the enabled passes, in order
    disabled: frozenset[str]  # the passes that the graph kernel flags switch off
    custom: Mapping[str, str]  # where each of the user's own passes is defined, by pass name
    requests: Requests  # the requested changes to the model's interface and opset
    fusion: GraphKernelFusion | None  # makes areas; None without graph kernel fusion
    kernels: KernelLibrary  # the library for the kernels of areas
    kept: KeptTypes  # the nodes that keep their type
    kept_nodes: KeptNodes  # the nodes that no pass changes
    precision: PrecisionPolicy  # which nodes compute in float16
    notices: tuple[str, ...]  # for the user

    @property
    def makes_areas(self) -> bool:
        """Whether graph kernel fusion is on."""
        return self.fusion is not None and self.fusion.flags.is_on

    def omit(self, names: Collection[str]) -> ConversionPlan:
        """A copy of the plan without these passes."""
        if not names:
            return self
        passes = tuple(p for p in self.passes if p.name not in names)
        fusion = self.fusion
        if fusion is not None:
            fusion = replace(fusion, enabled=fusion.enabled - frozenset(names))
        return replace(self, passes=passes, fusion=fusion)


def plan_of(options: Options, plog: Plog) -> ConversionPlan:
    """The plan for these options.

    Raises UsageError if an option is wrong or if --inputs contains no values. Raises FusioncError
    if a file with the user's own passes fails.
    """
    require_loadable(options.custom_op_library)
    registry = load_passes(options.custom_passes)
    switches = decide(
        registry,
        switch_file=options.fusion_switch_file,
        optimization_switch=options.optimization_switch,
        levels=Levels(
            options.oo_level, options.oo_constant_folding, options.oo_dead_code_elimination
        ),
        pattern_fusion_pass=options.pattern_fusion_pass,
    )
    read = read_flags(options.graph_kernel_flags, is_enabled=options.enable_graph_kernel)
    kernels = KernelLibrary(options.target, options.progress)
    notices = [*switches.notices, *read.notices]
    fusion = None
    enabled = _enabled(registry, switches, read.flags, options)
    notices += switch_notices(registry, switches, enabled, read)
    notices += ignored_variables(has_kernels=read.flags.is_on)
    precision = _precision(options)
    notices += precision.lists.notices
    notices += _precision_notices(options, has_kernels=read.flags.is_on)
    if read.raw or read.flags.is_on or is_echoed():
        # imported here because few conversions need these large modules
        from fusionc.graph_kernel.fusion import fusion_of
        from fusionc.graph_kernel.messages import tell_of_flags

        notices += tell_of_flags(read, registry, kernels.is_for_onnxruntime, plog)
        fusion = fusion_of(
            read.flags,
            registry,
            enabled,
            kernels,
            is_narrow=precision.mode == MIXED_BFLOAT16 and has_bfloat16(),
        )
    _require_inputs(options)
    requests = _requests(options)
    notices += [*requests.notices(options.verify_shape), *options.notices()]
    return ConversionPlan(
        options,
        passes=tuple(p for p in registry if p.name in enabled),
        disabled=disabled_by(read.flags, registry),
        custom={p.name: p.place for p in registry if p not in PASSES},
        requests=requests,
        fusion=fusion,
        kernels=kernels,
        kept=precision.kept,
        kept_nodes=KeptNodes.read(options.keep_nodes),
        precision=precision,
        notices=tuple(notices),
    )


def float32_plan_of(options: Options, plog: Plog, command: str) -> ConversionPlan:
    """The plan for a command that looks at rewrites. Raises UsageError if the options lower the
    model, because rewrites happen before that. Also raises the errors of `plan_of`.
    """
    plan = plan_of(options, plog)
    if plan.precision:
        what = f"{command} does not lower a model to float16"
        hint = f"leave out the options for float16: {command} looks at what happens before"
        raise UsageError(what, where="the options", hint=hint, code="E10001")
    return plan


def _enabled(
    registry: Sequence[Pass], switches: Switches, flags: Flags, options: Options
) -> frozenset[str]:
    """The names of the passes that run."""
    enabled = switched(registry, switches.enabled, flags)
    if options.pattern_fusion_pass:
        return enabled
    return enabled - {p.name for p in registry if p.is_pattern_fusion}


def _precision(options: Options) -> PrecisionPolicy:
    """Which nodes compute in another precision. Raises UsageError for wrong files."""
    kept = KeptTypes()
    customized = CustomizedTypes()
    lists = MixedLists()
    if options.keep_dtype is not None:
        kept = KeptTypes.in_file(options.keep_dtype)
    if options.customize_dtypes is not None:
        customized = CustomizedTypes.in_file(options.customize_dtypes)
    if options.modify_mixlist is not None:
        lists = MixedLists.in_file(options.modify_mixlist)
    if options.precision == MIXED_BFLOAT16:
        kept = kept.with_types(lists.added)
    return PrecisionPolicy(options.precision, kept, customized, lists)


def _require_inputs(options: Options) -> None:
    """Raises UsageError if --inputs is given and its path contains no values."""
    if options.inputs is not None:
        from fusionc.verify.inputs.given_values import GivenValues

        GivenValues(options.inputs)


def _precision_notices(options: Options, *, has_kernels: bool) -> list[str]:
    """Messages for the user about the precision. Raises UsageError if a precision of kernels is
    requested without kernels, or together with types of single nodes.
    """
    mode = options.precision
    lower = choice_text(one for one in MODES if one != ORIGIN)
    listed = (MIXED_FLOAT16, MIXED_BFLOAT16)
    is_customized = options.customize_dtypes is not None
    useful = {
        "--precision_error": (
            options.precision_error,
            mode != ORIGIN or is_customized,
            f"{lower}, or --customize_dtypes",
        ),
        "--keep_dtype": (options.keep_dtype, mode != ORIGIN, lower),
        "--modify_mixlist": (options.modify_mixlist, mode in listed, choice_text(listed)),
    }
    notices = [
        f"{name} has no effect without --precision_mode_v2={modes}"
        for name, (value, is_useful, modes) in useful.items()
        if value is not None and not is_useful
    ]
    if mode != MIXED_BFLOAT16:
        return notices
    if options.customize_dtypes is not None:
        what = f"--customize_dtypes changes types in the model, which {MIXED_BFLOAT16} keeps"
        hint = "give one of the two"
        raise UsageError(what, where="the options", hint=hint, code="E10001")
    if not has_kernels:
        what = f"--precision_mode_v2={MIXED_BFLOAT16} needs kernels, and none are generated"
        hint = "add --enable_graph_kernel"
        raise UsageError(what, where="the options", hint=hint, code="E10001")
    if not has_bfloat16():
        return [
            f"--precision_mode_v2={MIXED_BFLOAT16} changes nothing: this processor has no "
            "instructions for bfloat16"
        ]
    return notices


def _requests(options: Options) -> Requests:
    return Requests(
        input_shape=options.input_shape,
        out_nodes=options.out_nodes,
        output_type=options.output_type,
        free_dim=options.free_dim,
        target_opset=options.target_opset,
        profiles=size_profiles(
            options.dynamic_batch_size,
            options.dynamic_image_size,
            options.dynamic_dims,
            options.input_shape,
            options.source,
        ),
        aipp=() if options.insert_op_conf is None else aipp_blocks(options.insert_op_conf),
        input_format=options.input_format,
        ran=TypesOfARun(options.inputs, options.verify_shape),
    )
