"""`fusionc.slim`: a replacement for `onnxslim.slim` with the same arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fusionc.disk.load import load
from fusionc.errors import UsageError, advice, said
from fusionc.in_memory.optimize import optimize
from fusionc.in_memory.peer_names import (
    ONNXSLIM_PATTERNS,
    passes_for,
    refuse_arguments,
    require_list,
    require_model,
    switches,
)
from fusionc.in_memory.sample_file import sample_file
from fusionc.report.table import show_text
from fusionc.requested.exact_names import names_of_values

# arguments that must have their defaults, and what to do instead
_UNSUPPORTED = {
    "inputs": "onnx.utils.Extractor cuts a model at intermediate values",
    "dtype": (
        'slim keeps the results; fusionc.convert(..., precision_mode_v2="mixed_float16") '
        'computes in float16 where that is exact enough, "fp16" wherever it is possible'
    ),
    "size_threshold": (
        'folding may add at most 1 MiB in all; skip_optimizations=["constant_folding"] switches '
        "folding off"
    ),
    "inspect": "fusionc inspect examines a model, fusionc diff shows the differences of two models",
    "dump_to_disk": "fusionc diff --json and fusionc convert --report write what was done",
}
_TYPES = {"fp16": "FP16", "fp32": "FP32", "int32": "INT32", "bool": "BOOL"}
# The passes that remove what onnxslim calls dead nodes. Branches that are never taken are removed,
# too; another option switches this.
_DEAD_NODES = (
    "CastRemovePass",
    "DropOutPass",
    "IdentityPass",
    "NoUseReshapeRemovePass",
    "UselessBinaryOpRemovePass",
)
_MERGING_PASSES = {
    "subexpression_elimination": "CommonSubexpressionEliminationPass",
    "weight_tying": "RemoveSameConstPass",
}
# an example of an item for each argument that is a list
_LIST_EXAMPLES = {
    "input_shapes": "x:1,3,224,224",
    "model_check_inputs": "x:1,3,224,224",
    "outputs": "logits",
    "skip_optimizations": "constant_folding",
    "skip_fusion_patterns": "FusionGelu",
}
_OPTIMIZATIONS = ("constant_folding", "graph_fusion", "dead_node_elimination", *_MERGING_PASSES)


@refuse_arguments(_UNSUPPORTED)
def slim(
    model: str | os.PathLike[str] | onnx.ModelProto,
    output_model: str | None = None,
    *,
    model_check: bool = False,
    input_shapes: Sequence[str] | Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    no_shape_infer: bool = False,
    skip_optimizations: Sequence[str] | None = None,
    dtype: str | None = None,
    skip_fusion_patterns: Sequence[str] | None = None,
    size_threshold: int | None = None,
    inspect: bool = False,
    dump_to_disk: bool = False,
    save_as_external_data: bool = False,
    model_check_inputs: Sequence[str] | None = None,
    verbose: bool = False,
) -> onnx.ModelProto | None:
    """Slim a model for any runtime, with standard operators only, and return it. The arguments are
    those of `onnxslim.slim`.

    The result is always verified, and rewrites that make it wrong are left out.

    output_model             write the result to this path, print a short summary, and return None
    input_shapes             input sizes to fix, as ["x:1,3,224,224"]; they may differ from the
                             model's sizes
    outputs                  the values that become the outputs, with a type if they get another
                             one: ["logits", "mask:fp16"]; all inputs stay
    skip_optimizations       a list with some of "constant_folding", "graph_fusion",
                             "dead_node_elimination", "subexpression_elimination", "weight_tying"
    skip_fusion_patterns     onnxslim's names of patterns; the corresponding passes are switched off
    model_check_inputs       with model_check, shapes or .npy files for the verification:
                             ["x:1,3,224,224", "ids:ids.npy"]
    save_as_external_data    with output_model, write the weights to a separate file
    verbose                  print the current step

    no_shape_infer has no effect, because no inferred shapes are ever added to the result. Every
    other argument must have its default, and `model` cannot be a list; otherwise a UsageError says
    what to use instead.

    Raises VerificationError if the result is wrong even without the rewrites at fault, and
    UsageError and FusioncError as `fusionc.optimize` does.
    """
    require_model("slim", model)
    _require_lists(
        input_shapes=input_shapes,
        model_check_inputs=model_check_inputs,
        outputs=outputs,
        skip_optimizations=skip_optimizations,
        skip_fusion_patterns=skip_fusion_patterns,
    )
    proto = load(Path(model)) if isinstance(model, str | os.PathLike) else model
    checked_inputs = model_check_inputs if model_check else None
    shapes, arrays = _values(proto, checked_inputs or ())
    is_external = save_as_external_data and output_model is not None
    options: dict[str, Any] = {
        **_switches(skip_optimizations, skip_fusion_patterns),
        **_output_options(proto, outputs),
        "input_shape": _shapes(input_shapes),
        "verify_shape": shapes or None,
        "external_weight": 1 if is_external else None,
        "output": output_model,
        "progress": print if verbose else None,
    }
    del proto
    with sample_file(arrays) as sample:
        result, report = optimize(
            model, inputs=sample, target="onnx", on_mismatch="rollback", **options
        )
    if output_model is not None:
        show_text(str(report), sys.stdout)
        return None
    assert isinstance(result, onnx.ModelProto)
    return result


def _require_lists(**arguments: object) -> None:
    for name, value in arguments.items():
        require_list(name, value, _LIST_EXAMPLES[name])


def _switches(
    skip_optimizations: Sequence[str] | None, patterns: Sequence[str] | None
) -> dict[str, Any]:
    """The options of `fusionc.optimize` that switch off the skipped optimizations and patterns."""
    skipped = skip_optimizations or ()
    for name in skipped:
        if name not in _OPTIMIZATIONS:
            hint = advice(name, _OPTIMIZATIONS, f"the names are: {', '.join(_OPTIMIZATIONS)}")
            raise UsageError(f"skip_optimizations: there is no {name}", hint=hint, code="E10001")
    off = [*passes_for(patterns or (), ONNXSLIM_PATTERNS, "skip_fusion_patterns")]
    off += [pass_name for name, pass_name in _MERGING_PASSES.items() if name in skipped]
    if "dead_node_elimination" in skipped:
        # this pass also removes multiplications by 1, which onnxslim counts as dead nodes
        off += [*_DEAD_NODES, "ArithmeticSimplifyPass"]
    has_fusions = "graph_fusion" not in skipped
    kept = []
    if not has_fusions:
        kept = [name for name in (*_MERGING_PASSES.values(), *_DEAD_NODES) if name not in off]
    return {
        "oo_level": "O3" if has_fusions else "O1",
        "oo_constant_folding": "constant_folding" not in skipped,
        "oo_dead_code_elimination": "dead_node_elimination" not in skipped,
        "optimization_switch": switches(off=off, on=kept),
    }


def _output_options(model: onnx.ModelProto, texts: Sequence[str] | None) -> dict[str, Any]:
    """The options of `fusionc.optimize` for the requested outputs and their types."""
    outputs = list(_outputs(model, texts or ()))
    if unknown := [type_ for _, type_ in outputs if type_ and type_ not in _TYPES]:
        what = f"outputs: {unknown[0]} is not a type; the types are {', '.join(_TYPES)}"
        raise UsageError(what, hint="choose one", code="E10001")
    types = {name: _TYPES[type_] for name, type_ in outputs if type_}
    return {"out_nodes": [name for name, _ in outputs] or None, "output_type": types or None}


def _outputs(model: onnx.ModelProto, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The requested outputs as (name, type). The type is "" if the text has no type."""
    known = names_of_values(model) if any(":" in text for text in texts) else ()
    for text in texts:
        name, colon, type_ = text.rpartition(":")
        yield (name, type_) if colon and text not in known else (text, "")


def _shapes(
    shapes: Sequence[str] | Mapping[str, Sequence[int]] | None,
) -> dict[str, tuple[int, ...]] | None:
    if shapes is None:
        return None
    if isinstance(shapes, Mapping):
        return {name: tuple(shape) for name, shape in shapes.items()}
    return dict(map(_shape, shapes))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition(":")
    try:
        return name, tuple(map(int, sizes.split(",")))
    except ValueError:
        raise UsageError(
            f"{text} is not a shape", hint="give name:1,3,224,224", code="E10001"
        ) from None


def _values(
    model: onnx.ModelProto, texts: Sequence[str]
) -> tuple[dict[str, tuple[int, ...]], dict[str, Any]]:
    """The shapes by input name, and the arrays of .npy files by input name."""
    files = [_file(model, text) for text in texts if text.endswith(".npy")]
    shapes = dict(_shape(text) for text in texts if not text.endswith(".npy"))
    return shapes, {name: _array(path) for name, path in files}


def _file(model: onnx.ModelProto, text: str) -> tuple[str, str]:
    """Split "name:path". The name and the path may contain colons, so the longest input name that
    fits is used.
    """
    names = [value.name for value in model.graph.input if text.startswith(f"{value.name}:")]
    name = max(names, key=len, default=text.rpartition(":")[0])
    return name, text[len(name) + 1 :]


def _array(path: str) -> Any:
    try:
        return np.load(path)
    except (OSError, ValueError) as error:
        what = f"the file cannot be read: {said(error)}"
        raise UsageError(
            what, where=path, hint="give an array that numpy.save has written", code="E10001"
        ) from error
