"""`fusionc.simplify`: a replacement for `onnxsim.simplify` with the same arguments."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from fusionc.disk.load import load
from fusionc.errors import UsageError, VerificationError
from fusionc.in_memory.optimize import optimize
from fusionc.in_memory.peer_names import (
    BATCH_NORMALIZATION,
    ONNXSIM,
    passes_for,
    refuse_arguments,
    require_list,
    require_mapping,
    require_model,
    switches,
)
from fusionc.in_memory.sample_file import sample_file
from fusionc.protos import inputs_to_feed
from fusionc.requested.target_opset import latest_opset, newest_opset

_OWN_CHECK = (
    "fusionc derives the tolerances and input values of the verification from the model; "
    "input_data gives additional values"
)
_OVERWRITE = "overwrite_input_shapes"
# arguments that must have their defaults, and what to do instead
_UNSUPPORTED = {
    "tensor_size_threshold": (
        "folding may add at most 1 MiB in all; skip_constant_folding switches folding off"
    ),
    "initializers_as_constants": (
        "skip_constant_folding switches folding off, optimization_switch of fusionc.optimize "
        "switches single passes"
    ),
    "inline_functions": "switch on FunctionInlinePass",
    "extra_optimizers": (
        "optimization_switch of fusionc.optimize switches on passes that are off by default"
    ),
    "custom_rewriter": "fusionc.optimize takes custom_passes",
    "function_rewrite_rules": "fusionc.optimize takes custom_passes",
    "check_rtol": _OWN_CHECK,
    "check_atol": _OWN_CHECK,
    "input_fill": _OWN_CHECK,
    "gemm_fusion_backend": "optimization_switch of fusionc.optimize switches single passes",
    "profile": "fusionc.optimize returns a report with the seconds of each stage and pass",
    "ort_profile": "report of fusionc.optimize shows the time of each operator",
    "merge_ort_profile": "report of fusionc.optimize shows the time of each operator",
    "external_data_threshold": "fusionc.optimize has output and external_weight",
    "range_opt": "rewrites of fusionc are correct for all inputs",
    "certify": _OWN_CHECK,
    "check_hazards": "compare the outputs of onnxruntime with numpy for your own inputs",
    "check_gradients": "compare the outputs of onnxruntime with numpy for your own inputs",
    "gradient_precision": "compare the outputs of onnxruntime with numpy for your own inputs",
}

_SHAPE = '{"x": (1, 3, 224, 224)}'

Shapes = Mapping[str | None, Sequence[int]]


@refuse_arguments(_UNSUPPORTED)
def simplify(
    model: str | os.PathLike[str] | onnx.ModelProto,
    check_n: int = 0,
    perform_optimization: bool = True,
    skip_fuse_bn: bool = False,
    overwrite_input_shapes: Shapes | None = None,
    test_input_shapes: Shapes | None = None,
    skipped_optimizers: Sequence[str] | None = None,
    skip_constant_folding: bool = False,
    skip_shape_inference: bool = False,
    input_data: Mapping[str, Any] | None = None,
    dynamic_input_shape: bool = False,
    custom_lib: str | None = None,
    include_subgraph: bool = False,
    unused_output: Sequence[str] | None = None,
    tensor_size_threshold: str = "1.5GB",
    mutable_initializer: bool = False,
    *,
    initializers_as_constants: bool = True,
    inline_functions: bool = False,
    import_custom_schemas: bool = True,
    input_shapes: Shapes | None = None,
    target_opset_version: int | str | None = None,
    extra_optimizers: Sequence[str] | None = None,
    custom_rewriter: Any = None,
    function_rewrite_rules: Any = None,
    check_rtol: float = 1e-4,
    check_atol: float = 1e-5,
    input_fill: str = "random",
    providers: Sequence[Any] | None = None,
    gemm_fusion_backend: str = "ort_cpu",
    profile: str | None = None,
    ort_profile: str | None = None,
    merge_ort_profile: bool = False,
    output_path: str | None = None,
    external_data_threshold: str = "100MB",
    range_opt: bool = False,
    certify: bool | None = None,
    check_hazards: bool = False,
    check_gradients: bool = False,
    gradient_precision: str = "fp32",
) -> tuple[onnx.ModelProto, bool]:
    """Simplify a model for any runtime, with standard operators only. Return the result, and
    whether the result is right. The arguments are those of `onnxsim.simplify`.

    The result is always verified, on more inputs than check_n asks for. Rewrites that make the
    result wrong are left out. If the result is wrong even then, the function warns and returns the
    original model and False. If onnxruntime cannot run the model, nothing is verified: the function
    returns the result with True, or with False if check_n asks for a check.

    overwrite_input_shapes      input sizes to fix; they may differ from the model's sizes
    test_input_shapes           input sizes for the verification
    input_data                  additional input values for the verification
    perform_optimization        False: run only the passes that make sizes static
    skip_fuse_bn, skipped_optimizers, skip_constant_folding
                                switch off the corresponding passes
    unused_output               outputs to leave out
    custom_lib                  a library with custom operators of the model
    target_opset_version        the opset to raise the model to; "latest" is the newest opset for
                                which onnxruntime has all kernels of the model
    output_path                 also write the result to this path
    mutable_initializer         keep initializers that are inputs; by default (from IR version 4 on)
                                they become constants and are no longer inputs

    Four arguments have no effect, because fusionc always does what they ask for:
    skip_shape_inference (no inferred shapes are added to the result), dynamic_input_shape,
    include_subgraph (subgraphs are always simplified) and import_custom_schemas. providers may name
    the CPU. Every other argument must have its default; otherwise a UsageError says what to use
    instead.

    Raises UsageError and FusioncError as `fusionc.optimize` does.
    """
    require_model("simplify", model)
    require_list("skipped_optimizers", skipped_optimizers, "fuse_qkv")
    require_list("unused_output", unused_output, "logits")
    require_mapping(_OVERWRITE, overwrite_input_shapes, _SHAPE)
    require_mapping("test_input_shapes", test_input_shapes, _SHAPE)
    require_mapping("input_shapes", input_shapes, _SHAPE)
    require_mapping("input_data", input_data, '{"x": array}')
    _require_cpu(providers)
    proto = load(Path(model)) if isinstance(model, str | os.PathLike) else model
    off = passes_for(skipped_optimizers or (), ONNXSIM, "skipped_optimizers")
    options: dict[str, Any] = {
        "input_shape": _shapes(proto, overwrite_input_shapes or input_shapes),
        "verify_shape": _shapes(proto, test_input_shapes or input_shapes),
        "oo_level": "O3" if perform_optimization else "O1",
        "oo_constant_folding": not skip_constant_folding,
        "optimization_switch": switches(off=[*off, *(BATCH_NORMALIZATION if skip_fuse_bn else ())]),
        "custom_op_library": [] if custom_lib is None else [custom_lib],
        "out_nodes": _other_outputs(proto, unused_output),
        "target_opset": _opset(proto, target_opset_version),
        "output": output_path,
    }
    to_optimize = model if mutable_initializer else _drop_initialized_inputs(model, proto)
    del proto
    shapes = {_OVERWRITE: overwrite_input_shapes, "test_input_shapes": test_input_shapes}
    with sample_file(input_data or {}) as inputs, _errors_name_arguments(shapes):
        try:
            result, report = optimize(
                to_optimize, inputs=inputs, target="onnx", on_mismatch="rollback", **options
            )
        except VerificationError as error:
            warnings.warn(str(error), stacklevel=3)
            return _load_whole(model), False
    return result, not check_n or not report.unverified


@contextmanager
def _errors_name_arguments(shapes: Mapping[str, object]) -> Iterator[None]:
    """A context manager in which errors name an argument of `simplify` instead of the option of
    `optimize` that was made from it.
    """
    came_from = {"input_shape": _OVERWRITE, "verify_shape": "test_input_shapes"}
    try:
        yield
    except UsageError as error:
        argument = came_from.get(error.where, error.where)
        error.where = "input_shapes" if shapes.get(argument, True) in (None, {}) else argument
        raise


def _require_cpu(providers: Sequence[Any] | None) -> None:
    if providers is not None and list(providers) != ["CPUExecutionProvider"]:
        what = "simplify folds constants on the CPU only"
        raise UsageError(what, hint="leave providers out", code="E10001")


def _load_whole(model: str | os.PathLike[str] | onnx.ModelProto) -> onnx.ModelProto:
    """The model with its weights in memory."""
    return onnx.load(model) if isinstance(model, str | os.PathLike) else model


def _opset(proto: onnx.ModelProto, wanted: int | str | None) -> int | str | None:
    """The requested opset. "latest" is the newest opset for which onnxruntime has all kernels of
    the model.
    """
    return latest_opset(proto, newest_opset()) if wanted == "latest" else wanted


def _drop_initialized_inputs(
    model: str | os.PathLike[str] | onnx.ModelProto, proto: onnx.ModelProto
) -> str | os.PathLike[str] | onnx.ModelProto:
    """The model without the inputs that have initializers. The model is unchanged if it has no such
    inputs, or if its IR version requires them. `proto` is the same model without external data.
    """
    fed = inputs_to_feed(proto.graph)
    if proto.ir_version < 4 or len(fed) == len(proto.graph.input):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(_load_whole(model))
    changed.graph.ClearField("input")
    changed.graph.input.extend(fed)
    return changed


def _shapes(model: onnx.ModelProto, shapes: Shapes | None) -> dict[str, tuple[int, ...]] | None:
    """The shapes by input name. In `shapes`, the key None means the only input of the model."""
    if shapes is None:
        return None
    inputs = [value.name for value in inputs_to_feed(model.graph)]
    if None in shapes and len(inputs) != 1:
        hint = f"name the inputs: {', '.join(inputs)}"
        raise UsageError(
            "a shape without a name is for models with one input", hint=hint, code="E10001"
        )
    return {inputs[0] if name is None else name: tuple(shape) for name, shape in shapes.items()}


def _other_outputs(model: onnx.ModelProto, unused: Sequence[str] | None) -> list[str] | None:
    """The outputs that are not `unused`. None if `unused` names no output."""
    if not unused:
        return None
    names = [value.name for value in model.graph.output]
    if missing := [name for name in unused if name not in names]:
        hint = f"the outputs of the model are: {', '.join(names)}"
        what = f"the model has no output {missing[0]}"
        raise UsageError(what, where="unused_output", hint=hint, code="E10016")
    return [name for name in names if name not in unused]
