"""The arguments of onnxsim 0.8.1 and onnxslim 0.1.98."""

from __future__ import annotations

from typing import Any


def onnxsim_simplify(
    model: Any,
    check_n: Any = 0,
    perform_optimization: Any = True,
    skip_fuse_bn: Any = False,
    overwrite_input_shapes: Any = None,
    test_input_shapes: Any = None,
    skipped_optimizers: Any = None,
    skip_constant_folding: Any = False,
    skip_shape_inference: Any = False,
    input_data: Any = None,
    dynamic_input_shape: Any = False,
    custom_lib: Any = None,
    include_subgraph: Any = False,
    unused_output: Any = None,
    tensor_size_threshold: Any = "1.5GB",
    mutable_initializer: Any = False,
    *,
    initializers_as_constants: Any = True,
    inline_functions: Any = False,
    import_custom_schemas: Any = True,
    input_shapes: Any = None,
    target_opset_version: Any = None,
    extra_optimizers: Any = None,
    custom_rewriter: Any = None,
    function_rewrite_rules: Any = None,
    check_rtol: Any = 1e-4,
    check_atol: Any = 1e-5,
    input_fill: Any = "random",
    providers: Any = None,
    gemm_fusion_backend: Any = "ort_cpu",
    profile: Any = None,
    ort_profile: Any = None,
    merge_ort_profile: Any = False,
    output_path: Any = None,
    external_data_threshold: Any = "100MB",
    range_opt: Any = False,
    certify: Any = None,
    check_hazards: Any = False,
    check_gradients: Any = False,
    gradient_precision: Any = "fp32",
) -> None:
    """Only the signature of this function matters."""


ONNXSLIM_SLIM = {  # its keyword arguments
    "model_check", "input_shapes", "inputs", "outputs", "no_shape_infer", "skip_optimizations",
    "dtype",
    "skip_fusion_patterns", "size_threshold", "inspect", "dump_to_disk", "save_as_external_data",
    "model_check_inputs",
    "verbose",
}  # fmt: skip
