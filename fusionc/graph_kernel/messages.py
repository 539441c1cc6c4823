"""Messages about graph kernel fusion, for the log and for the user."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from fusionc.graph_kernel.dump_as_text import dump
from fusionc.graph_kernel.flag_warnings import (
    needless_lists,
    unknown_operators,
    unknown_passes,
    unknown_patterns,
    unknown_rules,
)
from fusionc.graph_kernel.flags.read_flags import ReadFlags
from fusionc.graph_kernel.flags.stages import CLUSTER, SPLITTER, Log, is_echoed, write_passes
from fusionc.graph_kernel.fusion import Fused, GraphKernelFusion
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.graph_kernel.measured_savings import savings_report
from fusionc.graph_kernel.select.operator_kinds import ROW_BY_ROW
from fusionc.report import Plog
from fusionc.report.report import totals
from fusionc.rewrite import Pass
from fusionc.rewrite.log import PatternCount

# The wording is MindSpore's, so that tools that search its log find the message.
_MISSING_KERNEL = (
    "Nodes that with kernel name [{}] do not have compile cache after compiling and will be split."
)


class _Echo:
    """A log that also writes to stderr."""

    def __init__(self, plog: Plog) -> None:
        self._plog = plog

    def info(self, function: str, message: str) -> None:
        print(self._plog.info(function, message), file=sys.stderr)


def tell_of_flags(
    read: ReadFlags, registry: Sequence[Pass], has_kernels: bool, plog: Plog
) -> list[str]:
    """Log the warnings about the flags. Return them, and notices about lists that change
    nothing.
    """
    flags = read.flags
    by_name = {p.name: p for p in registry}
    warnings = [*read.warnings, *unknown_passes(registry, flags), *unknown_operators(flags)]
    warnings += [*unknown_patterns(flags), *unknown_rules(by_name, flags)]
    for warning in warnings:
        plog.warning("GraphKernelFlags", warning)
    if read.flags.is_on:
        plog.info(
            "GraphKernelFlags",
            f'graph_kernel_flags = "{read.raw}", all flags: {read.flags.as_json()}',
        )
    return [*warnings, *(needless_lists(flags, has_kernels) if flags.is_on else [])]


def tell_of_areas(
    fused: Fused | None,
    fusion: GraphKernelFusion,
    kernels: KernelLibrary,
    counts: Sequence[PatternCount],
    plog: Plog,
) -> list[str]:
    """Log the stages and all passes, and return messages for the user. Write the dumps if the flags
    ask for them.

    Without graph kernel fusion, the passes are logged only if the environment variable GLOG_v asks
    for it, as in MindSpore.
    """
    log: Log = _Echo(plog) if is_echoed() else plog
    if fusion.flags.is_on or is_echoed():
        seconds = {total.name: total.seconds for total in totals(list(counts))}
        write_passes(list(fusion.registry.values()), fusion.enabled, seconds, log)
    if not fusion.flags.is_on:
        return []
    fused = fused or Fused()
    fusion.stages.write(log)
    for name, reason in kernels.missing.items():
        plog.warning("GraphKernelBuild", f"{_MISSING_KERNEL.format(name)} {reason}")
    return _notices(fused, fusion, kernels)


def _notices(fused: Fused, fusion: GraphKernelFusion, kernels: KernelLibrary) -> list[str]:
    """The messages for the user. Writes the dumps if the flags ask for them."""
    notices = list(kernels.notices)
    if not fused.areas and kernels.inherited is None:
        notices.append(
            f"graph kernel fusion has made no area, because {_why_none(fused, fusion)}; so the "
            "model has no kernels, and you need not register any"
        )
    if fused.whole:
        could = not fusion.flags.enable_stitch_fusion and ROW_BY_ROW.issuperset(fused.whole)
        notices.append(
            f"--enable_expand_ops: {', '.join(fused.whole)} is not expanded, because no area holds "
            f"its parts{'; --enable_stitch_fusion allows such areas' * could}"
        )
    if fused.called:
        notices.append(
            f"the operators of the functions {', '.join(fused.called)} are in no area; to allow "
            'areas of them, use --optimization_switch "FunctionInlinePass:on"'
        )
    if fused.raised_ir:
        notices.append(
            f"the IR version is raised to {fused.raised_ir}, because areas are functions, which "
            "older IR versions lack"
        )
    if fusion.flags.enable_debug_mode and kernels.file is not None:
        notices += savings_report(fused.areas, kernels.file)
    if fusion.flags.dump_as_text:
        notices += dump(fused, kernels.source(fused.areas))
    return notices


def _why_none(fused: Fused, fusion: GraphKernelFusion) -> str:
    """The reason why the model does not have areas."""
    stages = [
        stage_pass.names[1]
        for stage_pass in (CLUSTER, SPLITTER)
        if not fusion.stages.runs(stage_pass)
    ]
    if stages:
        return f"the stage pass {stages[0]} is off"
    reasons = [
        f"{name} is off (areas that would fit: {times})"
        for name, times in Counter(fused.unwanted).items()
    ]
    if any(count.matched for count in fused.counts):
        refusals = sum((Counter(count.refused) for count in fused.counts), Counter[str]())
        why = "".join(f" ({reason})" for reason, _ in refusals.most_common(1))
        reasons.append(f"every {'other ' if reasons else ''}area was refused{why}")
    return ", ".join(reasons) or f"no operators fit together{_why_products_stay(fused)}"


def _why_products_stay(fused: Fused) -> str:
    """The most frequent reason why convolutions and products are in no area, in parentheses; empty
    if there are none.
    """
    outside = (one for places in fused.outside for one in places())
    reasons = Counter(one.reason for one in outside if one.pass_name)
    return "".join(f" ({reason})" for reason, _ in reasons.most_common(1))
