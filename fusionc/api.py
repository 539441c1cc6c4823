"""`fusionc.convert`: the Python interface of a conversion."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusionc.conversion import conversion_story
from fusionc.errors import UsageError
from fusionc.options import Options, options_of
from fusionc.report import Report
from fusionc.requested.dimension_size import DimensionSize
from fusionc.runtime.optimizers import DEFAULT_LEVELS

if TYPE_CHECKING:
    from fusionc.bisect.bisect_story import Bisection
    from fusionc.tune.tuned import Tuned
    from fusionc.why.why_story import Answer


def convert(
    model: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    fusion_switch_file: str | os.PathLike[str] | None = None,
    optimization_switch: str | None = None,
    oo_level: str = "O3",
    oo_constant_folding: bool = True,
    oo_dead_code_elimination: bool = True,
    external_weight: int | None = None,
    input_shape: Mapping[str, Sequence[DimensionSize]] | None = None,
    free_dim: Mapping[str, Sequence[int] | Mapping[int, str]] | None = None,
    out_nodes: str | Sequence[str] | None = None,
    output_type: str | Mapping[str, str] | None = None,
    verify: bool = True,
    on_mismatch: str = "fail",
    check_rewrites: bool = False,
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
    trust_kernels: bool = False,
    ready: bool = False,
    timeout: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Optimize an ONNX model, verify the result in onnxruntime, write it, and report what was done.

    output                    the file to write, by default <model>_fusionc.onnx in the current
                              folder
    fusion_switch_file        which passes run, as JSON
    optimization_switch       "P:on;Q:off"; it beats the file
    oo_level                  "O1" leaves on only what static sizes need, unless file or option name
                              other passes
    oo_constant_folding, oo_dead_code_elimination
                              False switches that off, unless file or option name its passes
    external_weight           0 puts the weights into the model, 1 into a file beside it; by default
                              they stay
    input_shape               sizes of inputs to fix, {"x": (1, 3, -1, (64, 256))}; -1 and ranges
                              stay open
    free_dim                  sizes of inputs to make symbolic, {"x": (0, 2)} or {"x": {0:
                              "batch"}}; an error says what in the model holds one
    out_nodes                 what becomes the outputs: "conv1:0;relu2:1", or a list of these or of
                              names of values
    output_type               what the outputs are converted to in the end: "FP16",
                              "conv1:0:FP16;y:INT32" or {"y": "INT32"}
    on_mismatch               what becomes of a result that is wrong: "fail" writes nothing,
                              "rollback" leaves out the rewrites that make it wrong
    check_rewrites            run what each rewrite replaces beside what takes the place, before it
                              does; one that is wrong is a result that is wrong
    verify_shape              sizes of inputs to verify with, {"x": (1, 3, 224, 224)}
    inputs                    values of inputs to verify with as well: an .npz file, or a folder of
                              samples
    custom_op_library         libraries with operators of the model that onnxruntime does not have,
                              to verify with
    runtime_level             at which levels of onnxruntime's own optimizers the result runs:
                              "disabled", at which it is judged, "basic", "extended", "all"
    verify_budget             how many billions of elements the verification may compute in all;
                              what there is no room for is left out, and the report says so; 0 is no
                              limit, the default is 30, or 2 for each thousand nodes
    target                    "onnxruntime-cpu", or "onnx" for any runtime
    target_opset              the version of the standard operators to raise the model to first; by
                              default its own
    custom_passes             Python files with users' passes
    pattern_fusion_pass       False switches these off, and the built-in passes that do what
                              TorchAir's do
    dump_graph                a folder for the graph after every pass that took effect; a former
                              dump there is removed
    report                    a page for people, as HTML: what each rewrite did, sizes, times; needs
                              fusionc[report]
    enable_graph_kernel       make areas of operators, with generated kernels in <output>.kernels.so
    graph_kernel_flags        "--opt_level=2 --dump_as_text" says how, and switches it on, too;
                              where it is False only an opt_level does
    trust_kernels             load and keep the kernels of a model that another user or machine made
    ready                     write the result in a second form, too, which `fusionc.session` loads
                              fast where this onnxruntime runs on a processor like this one
    timeout                   the seconds of one step of onnxruntime, loading a model or running it
                              once; 0 is no limit, the default is 300
    progress                  is called with a word on what is being done

    The passes see the model with the sizes and outputs that were asked for, and the result is
    verified against it.

    Raises VerificationError, and writes nothing, where the result does not compute what the model
    computes; it names the rewrite at fault. Raises UsageError for wrong switches and files that are
    not there, FusioncError for everything else that goes wrong.
    """
    return conversion_story.convert(options_of(locals()))


def bisect(
    model: str | os.PathLike[str],
    *,
    check: str | None = None,
    output_dir: str | os.PathLike[str] = "bisect",
    **options: Any,
) -> Bisection:
    """Find the rewrites that make the result of a conversion wrong, one after another.

    check         a command that says whether a model is right by its exit code (0 right, 1 to 124
                  wrong, 125 cannot tell), with {model} where its path goes; by default the result
                  is verified
    output_dir    where a switch file that avoids them goes, and a small model of each
    options       those of `convert`

    Raises FusioncError where nobody can tell whether a result is right, UsageError as `convert`
    does.
    """
    # a conversion whose result is right does without it
    from fusionc.bisect import bisect_story

    return bisect_story.bisect(options_for(model, options), check, Path(output_dir))


def convert_up_to(model: str | os.PathLike[str], limit: int, **options: Any) -> str:
    """Convert with the first `limit` rewrites only, write the result unverified, and return what
    the last one was, and whether there are no more.
    """
    from fusionc.bisect import bisect_story
    from fusionc.report.rewrite_text import described

    last = bisect_story.convert_up_to(options_for(model, options), limit)
    count, said = (0, "no rewrite took effect") if last is None else (last.number, described(last))
    if count < limit:
        said += f"; the conversion has no more rewrites, {count} for a limit of {limit}: this is its whole result"
    return said


def why(
    model: str | os.PathLike[str],
    pass_name: str | None = None,
    *,
    node: str | None = None,
    expected: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Answer:
    """Say where a pass fires in a conversion, and why it does not fire where it nearly does.

    pass_name     the pass, or another name for one or several; with `expected`, None for all
    node          look at the places alone of which this node is a part
    expected      what another optimizer made of the model: look at what it fused and fusionc did
                  not
    options       those of `convert`

    Raises UsageError where there is no such pass, node or model, else as `convert` does; nothing is
    written.
    """
    from fusionc.why import why_story

    if pass_name is None and expected is None:
        raise UsageError(
            "neither a pass nor an expected model", hint="give one of them", code="E10001"
        )
    asked = options_for(model, options)
    return why_story.why(asked, pass_name, node, None if expected is None else Path(expected))


def tune(
    model: str | os.PathLike[str],
    *,
    budget: float = 300.0,
    confidence: float = 0.95,
    **options: Any,
) -> Tuned:
    """Find by measurement what makes a model fast on this machine, and write it with what was
    confirmed to pay.

    budget        the seconds to measure, more than 0; what is verified, and the conversion in the
                  end, come on top
    confidence    how sure it is that no change is made that does not pay
    options       those of `convert`

    A journal beside the output stays where this is interrupted; the same call goes on from there.
    Raises VerificationError, UsageError and FusioncError as `convert` does.
    """
    from fusionc.tune import tune_story

    return tune_story.tune(options_for(model, options), budget, confidence)


def options_for(model: str | os.PathLike[str], given: Mapping[str, Any]) -> Options:
    """The options of a conversion, with the defaults of `convert` where nothing is given."""
    defaults = {name: p.default for name, p in inspect.signature(convert).parameters.items()}
    if unknown := given.keys() - defaults.keys():
        raise TypeError(f"convert has no argument {', '.join(sorted(unknown))}")
    return options_of({**defaults, **given, "model": model})
