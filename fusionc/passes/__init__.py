"""The registry of passes, and the order in which they run: one line a pass.

A pass is a module named after its class; the switch file, the command line, the documentation, the templates and
the tests all read it from here.
"""

from importlib import import_module

from fusionc.rewrite import Pass

_ORDER = (
    # Clean-up: what is left for the others is what the model really computes.
    "graph_fusion.switch_dead_branch_elimination",
    "graph_fusion.function_inline",
    "graph_fusion.identity",
    "graph_fusion.drop_out",
    "graph_fusion.cast_remove",
    "graph_fusion.no_use_reshape_remove",
    "graph_fusion.unchanged_transpose_remove",
    "graph_fusion.useless_binary_op_remove",
    "graph_fusion.idempotent_op",
    "graph_fusion.dimension_compute",
    "graph_fusion.constant_folding",  # after the removals, which make more values constant
    "graph_fusion.common_subexpression_elimination",  # after folding: equal constants have been folded away
    "graph_fusion.remove_same_const",
    "graph_fusion.prune",
    # Operators written out: while they still are as the exporter wrote them
    "graph_fusion.softmax_small_op_fusion",
    "graph_fusion.stable_softmax_fusion",
    "graph_fusion.gelu_fusion",
    "graph_fusion.instance_norm_fusion",  # before LayerNorm, which would take the same over two trailing axes
    "graph_fusion.layer_norm_fusion",
    "graph_fusion.rms_norm_fusion",
    "graph_fusion.l2_norm_fusion",
    "graph_fusion.group_norm_fusion",
    "graph_fusion.clip_fusion",
    "graph_fusion.hard_sigmoid_fusion",  # what ClipFusion has made one Clip
    "graph_fusion.hard_swish_fusion",
    "graph_fusion.softplus_fusion",
    "graph_fusion.mish_fusion",
    "graph_fusion.swish_fusion",
    "graph_fusion.elu_selu_celu_fusion",
    "graph_fusion.depth_to_space_fusion",
    "graph_fusion.space_to_depth_fusion",
    "graph_fusion.einsum",
    # Convolution: what hides a Conv or its padding first; then what is behind a Conv goes into it, before what is in
    # front of the next one, which would have to be exact at its borders; then what joins Convs.
    "graph_fusion.space_to_batch_conv2d_batch_to_space",  # before Pad: it leaves one in front of the Conv
    "graph_fusion.pad_conv2d_fusion",
    "graph_fusion.pooling_fusion",
    "graph_fusion.conv_batchnorm_fusion",
    "graph_fusion.conv2d_transpose_batchnorm_fusion",
    "graph_fusion.conv_scale_fusion",
    "graph_fusion.conv2d_squeeze_biasadd_fusion",
    "graph_fusion.aa_biasadd_conv_fusion",  # after those that make a bias
    "graph_fusion.a_conv2d_mul_fusion",
    "graph_fusion.batchnorm_conv_fusion",
    "graph_fusion.batch_norm_to_scale",  # only for a BatchNormalization that no Conv takes
    "graph_fusion.conv1x1_reassociation",  # after the biases: it wants nothing between two Convs
    "graph_fusion.conv_to_fully_connection_fusion",
    "graph_fusion.a_split_conv2d_concat",
    "graph_fusion.conv_concat_fusion",
    "graph_fusion.same_input_conv2d",  # after ConvConcat, which needs no Split
    # Matrix multiplication: what moves a bias or a scale to its product first, then what joins them
    "graph_fusion.mat_mul_reshape_bias_add_fusion",
    "graph_fusion.batch_mat_mul_v2_reshape_fusion",
    "graph_fusion.mat_mul_bias_add_fusion",
    "graph_fusion.batch_mat_mul_fusion",
    "graph_fusion.gemm_scale_fusion",
    "graph_fusion.mat_mul_reassociation",
    "graph_fusion.same_input_mat_mul",
    # Moving data
    "graph_fusion.cast_relu_cast_fusion",
    "graph_fusion.strided_slice_merge",
    "graph_fusion.z_concatv2d_fusion",
    "graph_fusion.z_concat_ext2_fusion",  # after the merge: it wants all pieces in one Concat
    "graph_fusion.z_split_vd_fusion",
    "graph_fusion.z_split_vd_fusion_pass_v2",
    "graph_fusion.split_concat_fusion",  # after the merges: it wants all pieces of one Split in one Concat
    "graph_fusion.concat_tile_fusion",
    "graph_fusion.gather_fusion",  # after the Slices that become a Split
    "graph_fusion.upstream_gather",
    "graph_fusion.trans_op_symmetry_elimination",
    "graph_fusion.dim1_transpose_to_squeeze",
    "graph_fusion.shape_reshape",
    # Attention: when the shapes of heads are constants, repeated transpositions are one, and Slices are Splits
    "graph_fusion.rotary_embedding_fusion",
    "graph_fusion.flash_attention_fusion_v2",
    "graph_fusion.flash_attention_fusion_v1",  # the one with a mask
    # Arithmetic
    "graph_fusion.arithmetic_simplify",
    "graph_fusion.a_reduce_sum_fusion",
    "graph_fusion.constant_reassociation",
    "graph_fusion.real_div2_muls_fusion",  # after the constants have been joined
    "graph_fusion.pow_to_mul",
    "graph_fusion.sub_fusion",
    "graph_fusion.arithmetic_inexact",
    # The target's own operators come last: no portable pass knows them.
    "ub_fusion.rotary_embedding_ub_fusion",
    "ub_fusion.group_query_attention_fusion",  # before the one that takes repeated keys
    "ub_fusion.multi_head_attention_fusion",
    "ub_fusion.repeated_mat_mul_ub_fusion",  # of the attentions that are left as they are
    "ub_fusion.add_rms_norm_dynamic_quant_fusion",
    "ub_fusion.add_rms_norm_quant_fusion",  # those of a longer chain first
    "ub_fusion.rms_norm_quant_fusion",
    "ub_fusion.add_cast_rms_norm_cast_fusion",
    "ub_fusion.add_rms_norm_fusion",
    "ub_fusion.embed_layer_norm_fusion",  # before the one that takes every sum
    "ub_fusion.add_layer_norm_fusion",
    "ub_fusion.residual_sum",  # of the sums that no operator has taken
    "ub_fusion.squeeze_excite_scale",  # before the activations become operators of onnxruntime
    "ub_fusion.tbe_conv_double_in_fusion",
    "ub_fusion.tbe_conv_elemwise_fusion",
    "ub_fusion.inference_qbmm_add_fusion",
    "ub_fusion.inference_matmul_split_fusion",
    "ub_fusion.a_tbe_mat_mul_elemwise_fusion",
    "ub_fusion.fast_gelu_fusion",  # before BiasGelu, where it is switched on
    "ub_fusion.bias_gelu_fusion",
    "ub_fusion.inference_swiglu_fusion",  # before QuickGelu: in any order of its factors
    "ub_fusion.quick_gelu_fusion",
    "ub_fusion.transpose_scale_mat_mul_fusion",  # behind those that look for plain products
    # Never: they are there for their names
    "ub_fusion.mat_mul_all_reduce",
    "ub_fusion.inference_qbmm_allreduce_add_fusion",
    # Areas take what no other pass wanted.
    "ub_fusion.fusion_virtual_op_set_switch",
    "ub_fusion.tbe_multi_output_fusion",
    "ub_fusion.tbe_reduce_elemwise_fusion",
    "ub_fusion.tbe_eltwise_fusion",
    "ub_fusion.automatic_ub_fusion",
)


def _load(name: str) -> Pass:
    module = import_module(f"{__name__}.{name}")
    found = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    (only,) = (c for c in found if issubclass(c, Pass))
    return only()


PASSES: tuple[Pass, ...] = tuple(map(_load, _ORDER))
