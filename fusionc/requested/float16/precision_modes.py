"""The values of --precision_mode_v2, and the older names of --precision_mode."""

from __future__ import annotations

ORIGIN = "origin"  # every node keeps its type
FP16 = "fp16"  # every node that can computes in float16
MIXED_FLOAT16 = "mixed_float16"  # as FP16, except nodes that lose too much precision
CUBE_FP16 = "cube_fp16in_fp32out"  # products round their inputs to float16, and sum in float32
MIXED_BFLOAT16 = "mixed_bfloat16"  # kernels multiply numbers of bfloat16
PRODUCTS_FLOAT16 = "allow_fp32_to_fp16"  # products compute in float16; it has no newer name

MODES = (ORIGIN, FP16, MIXED_FLOAT16, CUBE_FP16, MIXED_BFLOAT16)
# ATC's older name → the mode
OLDER = {
    "must_keep_origin_dtype": ORIGIN,
    "force_fp16": FP16,
    "allow_fp32_to_fp16": PRODUCTS_FLOAT16,
    "allow_mix_precision": MIXED_FLOAT16,
    "allow_mix_precision_fp16": MIXED_FLOAT16,
    "cube_fp16in_fp32out": CUBE_FP16,
    "allow_mix_precision_bf16": MIXED_BFLOAT16,
    "allow_fp32_to_bf16": MIXED_BFLOAT16,
}
LOWERING = frozenset({FP16, MIXED_FLOAT16, CUBE_FP16, PRODUCTS_FLOAT16})
# modes in which nodes that lose too much stay in float32
SEARCHING = LOWERING - {FP16}
