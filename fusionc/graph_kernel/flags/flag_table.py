"""The flags of graph kernel fusion as data: those that decide something here, and those that only a chip can use."""

from __future__ import annotations

from typing import Literal

FlagType = Literal["bool", "int", "uint", "text", "list"]

# enable_pass and disable_pass may put one of these, and a dot, in front of the name of a pass. What has another name
# there is a stage of graph kernel fusion.
MANAGERS = ("fusion_group", "backend_fusion")

# In the order of MindSpore's list. Their defaults are those of `flags.Flags`.
EFFECTIVE: dict[str, FlagType] = {
    "opt_level": "uint",
    "dump_as_text": "bool",
    "enable_stitch_fusion": "bool",
    "enable_debug_mode": "bool",
    "enable_parallel_op_combine": "bool",
    "exact_precision_mode": "bool",
    "composite_op_limit_size": "int",
    "enable_expand_ops": "list",
    "enable_expand_ops_only": "list",
    "disable_expand_ops": "list",
    "enable_cluster_ops": "list",
    "enable_cluster_ops_only": "list",
    "disable_cluster_ops": "list",
    "enable_simplify_exprs_only": "list",
    "disable_simplify_exprs": "list",
    "enable_pass": "list",
    "disable_pass": "list",
    "enable_fusion_pattern_only": "list",
    "disable_fusion_pattern": "list",
    "enable_packet_ops_only": "list",
    "disable_packet_ops": "list",
}

# Of a chip, of another code generator, of training, or of tuning that the kernels here do not need.
WITHOUT_EFFECT: dict[str, FlagType] = {
    "enable_recompute_fusion": "bool",
    "enable_parallel_fusion": "bool",
    "enable_horizontal_fusion": "bool",
    "enable_auto_tensor_inplace": "bool",
    "enable_dynamic_batch": "bool",
    "enable_low_precision": "bool",
    "enable_csr_fusion": "bool",
    "enable_lite_conv_tuning": "bool",
    "disable_matmul_post_fusion": "bool",
    "enable_vectorization": "bool",
    "enable_allreduce_prologue_fusion": "bool",
    "enable_allreduce_epilogue_fusion": "bool",
    "enable_dynamic_shape_fusion": "bool",
    "enable_cce_lib": "bool",
    "reduce_fuse_depth": "int",
    "online_tuning": "uint",
    "cpu_refer_thread_num": "uint",
    "fusion_ops_level": "uint",
    "parallel_ops_level": "uint",
    "recompute_increment_threshold": "int",
    "recompute_peak_threshold": "int",
    "repository_path": "text",
    "cpu_arch": "text",
    "cpu_feature": "text",
    "cpu_type": "text",
    "target_os": "text",
    "kernel_generator": "text",
    "enable_cce_lib_ops": "list",
    "enable_cce_lib_ops_only": "list",
    "disable_cce_lib_ops": "list",
}
