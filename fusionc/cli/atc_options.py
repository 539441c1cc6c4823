"""ATC's options that fusionc does not implement. Options that would change the result are refused.
The other options have no effect on the result and are ignored.

docs/cli.md shows both tables. An option that changes what the model computes, or the format of its
inputs and outputs, must never be ignored.
"""

from __future__ import annotations

from typing import NamedTuple


class RefusedOption(NamedTuple):
    """An option that would change the result."""

    asks_for: str  # what the option would do
    instead: str  # the advice: what to do instead
    harmless: tuple[str, ...] = ()  # values that ask for fusionc's normal behaviour


_QUANTIZE = "quantize the model first (for example with onnxruntime.quantization), then convert it"
_LAYOUT = "inputs and outputs keep the layout of the model; leave the option out"
_FALSE = ("false", "0")

REFUSED = {
    "compress_weight_conf": RefusedOption(
        "compressed weights", "leave it out; weights are stored as they are"
    ),
    "enable_compress_weight": RefusedOption(
        "compressed weights", "leave it out; weights are stored as they are", _FALSE
    ),
    "compression_optimize_conf": RefusedOption("quantization by calibration", _QUANTIZE),
    "cal_conf": RefusedOption("quantization by calibration", _QUANTIZE),
    "singleop": RefusedOption(
        "models of single operators, from a JSON file",
        "write an ONNX model of one node, for example with onnx.helper",
    ),
    "weight": RefusedOption(
        "weights of a Caffe model",
        "an ONNX model names the files of its weights itself; leave the option out",
    ),
    "input_fp16_nodes": RefusedOption(
        "inputs of type float16",
        "leave it out; --precision_mode_v2=fp16 makes the rest of the model float16, and inputs "
        "keep their type",
    ),
    "is_input_adjust_hw_layout": RefusedOption(
        "inputs in the layout of the chip, NC1HWC0", _LAYOUT, _FALSE
    ),
    "is_output_adjust_hw_layout": RefusedOption(
        "outputs in the layout of the chip, NC1HWC0", _LAYOUT, _FALSE
    ),
    "shape_generalized_build_mode": RefusedOption(
        "dynamic sizes in place of fixed ones",
        "export the model with dynamic dimensions",
        ("shape_precise",),
    ),
    "raw_ge_options": RefusedOption("options from a JSON file", "give each option by its own name"),
}

# why options have no effect → these options
IGNORED = {
    "it describes the chip and the machine that run the model, and fusionc does not need this": """
        soc_version core_type aicore_num virtual_type device_id host_env_os host_env_cpu
        cluster_config hccl_sub_comm_config""",
    "it says how the chip runs the model, not what the model computes": """
        ac_parallel_enable atomic_clean_policy buffer_optimize deterministic deterministic_level
        disable_reuse_memory enable_single_stream enable_small_channel h2d_overlapped_with_compute
        jit_compile multi_stream_parallel_mode static_model_ops_lower_limit tiling_schedule_optimize
        topo_sorting_mode input_hint_shape""",
    "it chooses among the chip's kernels for one operator; here every operator computes in its own "
    "type": """
        allow_hf32 op_precision_mode op_select_implmode optypelist_for_implmode auto_tune_mode
        mdl_bank_path op_bank_path""",
    "constants that float16 cannot hold stay in float32": "is_weight_clip",
    "it says how an .om file is stored": """
        enable_attr_compression sparsity build_config save_original_model""",
    "it is for finding faults on the chip": """
        debug_dir op_debug_config op_debug_level op_compiler_cache_dir op_compiler_cache_mode
        quant_dumpable status_check""",
    "the table at the end of a conversion shows the sizes anyway": "display_model_info",
    "it is for models of Caffe or TensorFlow": "op_name_map enable_scope_fusion_passes",
    "it belongs to --raw_ge_options, which is refused": "raw_ge_options_ignore_unsupported",
}
