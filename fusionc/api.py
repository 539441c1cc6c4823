"""`fusionc.convert` and the other functions that commands call: conversions from Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusionc.conversion import conversion_story
from fusionc.errors import UsageError
from fusionc.options import options_of
from fusionc.options.python_help import document_arguments
from fusionc.report import Report
from fusionc.requested.dimension_size import DimensionSize
from fusionc.runtime.optimizers import DEFAULT_LEVELS

if TYPE_CHECKING:
    from fusionc.bisect.bisect_story import Bisection
    from fusionc.tune.tuned import Tuned
    from fusionc.why.why_story import Answer


@document_arguments
def convert(
    model: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    fusion_switch_file: str | os.PathLike[str] | None = None,
    optimization_switch: str | None = None,
    oo_level: str = "O3",
    oo_constant_folding: bool = True,
    oo_dead_code_elimination: bool = True,
    keep_nodes: str | os.PathLike[str] | Sequence[str] | None = None,
    external_weight: int | None = None,
    input_shape: Mapping[str, Sequence[DimensionSize]] | None = None,
    free_dim: Mapping[str, Sequence[int] | Mapping[int, str]] | None = None,
    out_nodes: str | Sequence[str] | None = None,
    insert_op_conf: str | os.PathLike[str] | None = None,
    dynamic_batch_size: Sequence[int] | None = None,
    dynamic_image_size: Sequence[Sequence[int]] | None = None,
    dynamic_dims: Sequence[Sequence[int]] | None = None,
    input_format: str | None = None,
    output_type: str | Mapping[str, str] | None = None,
    verify: bool = True,
    on_mismatch: str = "fail",
    check_rewrites: bool = False,
    require_verification: bool = False,
    verify_shape: Mapping[str, tuple[int, ...]] | None = None,
    inputs: str | os.PathLike[str] | None = None,
    custom_op_library: Sequence[str | os.PathLike[str]] = (),
    export_compile_stat: int = 0,
    log: str | None = None,
    runtime_level: Sequence[str] = DEFAULT_LEVELS,
    verify_budget: float | None = None,
    target: str = "onnxruntime-cpu",
    target_opset: int | None = None,
    custom_passes: Sequence[str | os.PathLike[str]] = (),
    pattern_fusion_pass: bool = True,
    dump_graph: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    enable_graph_kernel: bool | None = None,
    graph_kernel_flags: str | None = None,
    precision_mode_v2: str | None = None,
    precision_mode: str | None = None,
    precision_error: float | None = None,
    keep_dtype: str | os.PathLike[str] | None = None,
    customize_dtypes: str | os.PathLike[str] | None = None,
    modify_mixlist: str | os.PathLike[str] | None = None,
    trust_kernels: bool = False,
    ready: bool = False,
    timeout: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Optimize an ONNX model, verify the result in onnxruntime, write it, and report what was done.

    The passes see the model with the requested sizes and outputs, and the result is verified
    against that model.

    Raises VerificationError, and writes nothing, if the result does not compute what the model
    computes; the error names the rewrite at fault. Raises UsageError for wrong arguments, wrong
    switches and missing files. Raises FusioncError for every other failure.

    If nothing of the result could be verified, the result is written, and `unverified` of the
    report says why. With `require_verification` UnverifiedError is raised instead.
    """
    options = options_of(
        model=model,
        output=output,
        fusion_switch_file=fusion_switch_file,
        optimization_switch=optimization_switch,
        oo_level=oo_level,
        oo_constant_folding=oo_constant_folding,
        oo_dead_code_elimination=oo_dead_code_elimination,
        keep_nodes=keep_nodes,
        external_weight=external_weight,
        input_shape=input_shape,
        free_dim=free_dim,
        out_nodes=out_nodes,
        insert_op_conf=insert_op_conf,
        dynamic_batch_size=dynamic_batch_size,
        dynamic_image_size=dynamic_image_size,
        dynamic_dims=dynamic_dims,
        input_format=input_format,
        output_type=output_type,
        verify=verify,
        on_mismatch=on_mismatch,
        check_rewrites=check_rewrites,
        require_verification=require_verification,
        verify_shape=verify_shape,
        inputs=inputs,
        custom_op_library=custom_op_library,
        export_compile_stat=export_compile_stat,
        log=log,
        runtime_level=runtime_level,
        verify_budget=verify_budget,
        target=target,
        target_opset=target_opset,
        custom_passes=custom_passes,
        pattern_fusion_pass=pattern_fusion_pass,
        dump_graph=dump_graph,
        report=report,
        enable_graph_kernel=enable_graph_kernel,
        graph_kernel_flags=graph_kernel_flags,
        precision_mode_v2=precision_mode_v2,
        precision_mode=precision_mode,
        precision_error=precision_error,
        keep_dtype=keep_dtype,
        customize_dtypes=customize_dtypes,
        modify_mixlist=modify_mixlist,
        trust_kernels=trust_kernels,
        ready=ready,
        timeout=timeout,
        progress=progress,
    )
    return conversion_story.convert(options)


def bisect(
    model: str | os.PathLike[str],
    *,
    check: str | None = None,
    output_dir: str | os.PathLike[str] = "bisect",
    **options: Any,
) -> Bisection:
    """Find the rewrites that make the result of a conversion wrong, one after another.

    check         a command whose exit code says whether a model is right (0 right, 1 to 124 wrong,
                  125 undecided); {model} in the command is replaced by the model's path; by default
                  the result is verified
    output_dir    the folder for a switch file that avoids these rewrites, and for a small model of
                  each rewrite
    options       those of `convert`

    Raises FusioncError if it cannot be decided whether a result is right, and UsageError as
    `convert` does.
    """
    # imported here because `convert`, too, imports this module, and does not need bisection
    from fusionc.bisect import bisect_story

    return bisect_story.bisect(options_of(model, **options), check, Path(output_dir))


def convert_up_to(model: str | os.PathLike[str], limit: int, **options: Any) -> str:
    """Convert with only the first `limit` rewrites and write the result unverified. Return a
    sentence that describes the last rewrite and says whether the conversion has further rewrites.
    """
    from fusionc.bisect import bisect_story
    from fusionc.report.rewrite_text import described

    last = bisect_story.convert_up_to(options_of(model, **options), limit)
    count, text = (0, "no rewrite took effect") if last is None else (last.number, described(last))
    if count < limit:
        what = f"the limit was {limit}, but the conversion has no more rewrites"
        text += f"; {what}: the model is its complete result"
    return text


def why(
    model: str | os.PathLike[str],
    pass_name: str | None = None,
    *,
    node: str | None = None,
    expected: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Answer:
    """Say where a pass fires in a conversion, and why it does not fire at places where its pattern
    nearly matches.

    pass_name     the name of the pass, or an alias of one or more passes; with `expected`, None
                  means all passes; "DequantizeLinear" asks why each node of this operator stays
    node          look only at places that this node is part of
    expected      the same model, optimized by another tool: look at the nodes that this tool fused
                  and fusionc did not
    options       those of `convert`

    Raises UsageError if the pass, the node or the model does not exist, and errors as `convert`
    does. Nothing is written.
    """
    from fusionc.why import why_story

    if pass_name is None and expected is None:
        raise UsageError(
            "neither a pass nor an expected model", hint="give one of them", code="E10001"
        )
    parsed = options_of(model, **options)
    return why_story.why(parsed, pass_name, node, None if expected is None else Path(expected))


def tune(
    model: str | os.PathLike[str],
    *,
    budget: float = 300.0,
    confidence: float = 0.95,
    **options: Any,
) -> Tuned:
    """Find by measurement which changes make a model faster on this machine, and write the model
    with the changes whose benefit is confirmed.

    budget        the seconds to measure, more than 0; verification and the final conversion take
                  additional time
    confidence    the confidence that every delivered change makes the model faster, from 0.5 to
                  below 1
    options       those of `convert`

    If the call is interrupted, a journal stays next to the output, and the same call continues from
    the journal. Raises VerificationError, UsageError and FusioncError as `convert` does.
    """
    from fusionc.tune import tune_story

    return tune_story.tune(options_of(model, **options), budget, confidence)
