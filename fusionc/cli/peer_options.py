"""Options of onnxsim and onnxslim that fusionc spells in another way, and what to write instead."""

from __future__ import annotations

_ALWAYS_VERIFIED = "leave it out: every result is verified"
_SIZES = 'give --input_shape "x:1,3,224,224"'
_BATCH_NORMALIZATION = "give --disable ConvBatchnormFusionPass"
_LITTLE = "leave it out: folding adds at most 1 MiB in all"
_NO_FOLDING = "give --oo_constant_folding=false"
# By the option as `key_of` returns it. Where a name is in both, it means the same in both.
PEER_OPTIONS = {
    # onnxsim
    "no_large_tensor": _LITTLE,
    "overwrite_input_shape": _SIZES,
    "skip_constant_folding": _NO_FOLDING,
    "skip_fuse_bn": _BATCH_NORMALIZATION,
    "skip_optimization": "give --oo_level O1, or --disable with the name of a pass",
    "test_input_shape": "give --verify_shape",
    "unused_output": "give --out_nodes with the outputs to keep",
    # onnxslim
    "dtype": "give --precision_mode_v2 mixed_float16, or fp16",
    "input_shapes": _SIZES,
    "inspect": "write: fusionc inspect MODEL",
    "model_check": _ALWAYS_VERIFIED,
    "model_check_inputs": "give --inputs",
    "no_constant_folding": _NO_FOLDING,
    "no_shape_infer": "leave it out: no inferred shapes are written",
    "outputs": "give --out_nodes",
    "size_threshold": _LITTLE,
    "skip_fusion_patterns": "give --disable with the names of passes",
}
