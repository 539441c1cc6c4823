"""The registry of passes, and the order in which they run: one line for each pass.

A pass is the only `Pass` class of its module. The switch file, the command line, the documentation,
the templates and the tests all read the passes from here.
"""

from importlib import import_module

from fusionc.rewrite import Pass

_ORDER = (
    # cleanup: first, so that the later passes see only the operators that the model needs
    "cleanup.rank_question",
    "cleanup.switch_dead_branch_elimination",
    "cleanup.function_inline",
    "cleanup.identity",
    "cleanup.drop_out",
    "cleanup.zero_initial_state",
    "cleanup.cast_remove",
    "cleanup.requantize_remove",
    "cleanup.no_use_reshape_remove",
    "cleanup.unchanged_transpose_remove",
    "cleanup.useless_binary_op_remove",
    "cleanup.idempotent_op",
    "cleanup.where_not",
    "cleanup.dimension_compute",
    "cleanup.shape_of_input",  # after DimensionCompute, which turns known dimensions into constants
    "cleanup.constant_folding",  # after the removals, which make more values constant
    # after folding, which removes the subexpressions of constants
    "cleanup.common_subexpression_elimination",
    "cleanup.subnormal_to_zero",  # after folding, which makes weights
    "cleanup.remove_same_const",
    "cleanup.prune",
    # activations: formulas that are written out, before other passes change their operators
    "activations.softmax_small_op_fusion",
    "activations.stable_softmax_fusion",
    "activations.gelu_fusion",
    # normalization: formulas that are written out
    # before LayerNorm, whose formula is the same over two trailing axes
    "normalization.instance_norm_fusion",
    "normalization.layer_norm_fusion",
    "normalization.rms_norm_fusion",
    "normalization.l2_norm_fusion",
    "normalization.group_norm_fusion",
    # activations
    "activations.clip_fusion",
    "activations.hard_sigmoid_fusion",  # after ClipFusion, which joins two limits into one Clip
    "activations.hard_swish_fusion",
    "activations.softplus_fusion",
    "activations.mish_fusion",
    "activations.swish_fusion",
    "activations.elu_selu_celu_fusion",
    # data_movement: blocks of pixels
    "data_movement.depth_to_space_fusion",
    "data_movement.space_to_depth_fusion",
    # matmul: products that are written as Einsum
    "matmul.einsum",
    # signal: transforms become products and convolutions
    "signal.stft_to_conv",
    "signal.dft_to_mat_mul",
    # convolution: first the passes that uncover a Conv or its padding; then the passes that fold
    # later operators into the Conv before them; then those that fold earlier operators into the
    # next Conv, where its padding limits them; last the passes that join Convs.
    # before PadConv2d, because its result is a Pad before the Conv
    "convolution.space_to_batch_conv2d_batch_to_space",
    "convolution.pad_conv2d_fusion",
    "convolution.pooling_fusion",
    "convolution.conv_batchnorm_fusion",
    "convolution.conv2d_transpose_batchnorm_fusion",
    "convolution.conv_scale_fusion",
    "convolution.conv2d_squeeze_biasadd_fusion",
    "convolution.biasadd_conv_fusion",  # after the passes that make a bias
    "convolution.conv2d_mul_fusion",
    "convolution.batchnorm_conv_fusion",
    "convolution.batch_norm_to_scale",  # for a BatchNormalization that no Conv has absorbed
    "convolution.conv1x1_reassociation",  # after the bias passes: nothing may be between the Convs
    "convolution.conv_to_fully_connection_fusion",
    "convolution.split_conv2d_concat",
    "convolution.conv_concat_fusion",
    "convolution.same_input_conv2d",  # after ConvConcat, which needs no Split
    # quantization: weights of torch's Linear, before the passes that look at products
    "quantization.transposed_dequantized_weights",
    # matmul: first the passes that move a bias or a scale to its product, then those that join
    # products
    "matmul.mat_mul_reshape_bias_add_fusion",
    "matmul.batch_mat_mul_v2_reshape_fusion",
    "matmul.mat_mul_bias_add_fusion",
    "matmul.batch_mat_mul_fusion",
    "matmul.gemm_scale_fusion",
    "matmul.mat_mul_reassociation",
    "matmul.same_weights_mat_mul",  # before SameInputMatMul
    "matmul.same_input_mat_mul",
    # data_movement
    "data_movement.cast_relu_cast_fusion",
    "data_movement.sequence_elimination",  # before its new Slices are merged
    "data_movement.strided_slice_merge",
    "data_movement.concatv2d_fusion",
    "data_movement.concat_ext2_fusion",  # after the merge: all pieces must be in one Concat
    "data_movement.split_vd_fusion",
    "data_movement.split_vd_fusion_pass_v2",
    # after the merges: all pieces of one Split must be in one Concat
    "data_movement.split_concat_fusion",
    "data_movement.concat_tile_fusion",
    "data_movement.gather_fusion",  # after Slices have become a Split
    "data_movement.upstream_gather",
    "data_movement.trans_op_symmetry_elimination",
    "data_movement.trans_function_symmetry_elimination",
    # before Transposes of axes of one element become Reshapes
    "data_movement.trans_mat_mul_symmetry_elimination",
    "data_movement.dim1_transpose_to_squeeze",
    "data_movement.shape_reshape",
    "data_movement.expand_elimination",
    "data_movement.flat_batch_elimination",  # before attention, which needs batch and heads apart
    # attention: after the shapes of heads have become constants, repeated Transposes have been
    # joined, and Slices have become Splits
    "attention.rotary_embedding_fusion",
    "attention.flash_attention_fusion_v2",
    "attention.flash_attention_fusion_v1",  # attention with a mask
    # arithmetic
    "arithmetic.arithmetic_simplify",
    "arithmetic.reduce_sum_fusion",
    "arithmetic.constant_reassociation",
    "arithmetic.real_div2_muls_fusion",  # after the constants have been joined
    "arithmetic.quotient_simplify",
    "arithmetic.pow_to_mul",
    "arithmetic.sub_fusion",
    "arithmetic.arithmetic_inexact",
    # convolution: after the constants have been joined
    "convolution.squeeze_excite_residual",
    # From here on, passes may emit onnxruntime's own operators, which portable passes do not know.
    # quantization: before activations are fused into float convolutions
    "quantization.quantized_activation",
    "quantization.quantized_mean",
    # attention
    "attention.rotary_embedding_ub_fusion",
    # before MultiHeadAttention, which accepts repeated keys, too
    "attention.group_query_attention_fusion",
    "attention.multi_head_attention_fusion",
    "attention.repeated_mat_mul_ub_fusion",  # for attention that is still written out
    # data_movement: for attention that is still written out
    "data_movement.unpack_transpose",
    # data_movement: for Transposes that no attention has absorbed
    "data_movement.image_transpose",
    # quantization: normalizations
    "quantization.add_rms_norm_dynamic_quant_fusion",
    "quantization.add_rms_norm_quant_fusion",  # longer chains first
    "quantization.rms_norm_quant_fusion",
    # normalization: together with the sum before it
    "normalization.add_cast_rms_norm_cast_fusion",
    "normalization.add_rms_norm_fusion",
    "normalization.embed_layer_norm_fusion",  # before AddLayerNorm, which takes any sum
    "normalization.add_layer_norm_fusion",
    "normalization.residual_sum",  # for sums that no operator has absorbed
    "normalization.rms_norm_ub_fusion",  # for normalizations that no operator has absorbed
    # convolution
    "convolution.pad_channels",
    "convolution.scale_shift_to_conv",  # for constants that no Conv has absorbed
    "convolution.conv_split",
    "convolution.squeeze_excite_scale",  # before the activations become operators of onnxruntime
    "convolution.conv_double_in_fusion",
    "convolution.conv_elemwise_fusion",
    "convolution.conv1d_to_conv2d",  # after activations have been fused into the Conv
    "convolution.few_channels_conv",  # after activations have been fused into the Conv
    # quantization: products
    "quantization.grouped_conv_integer",  # before the passes that change integer types
    "quantization.integer_pointwise_conv",  # before the passes that change integer types
    "quantization.dequantized_conv",
    # after the passes that add Transposes
    "quantization.quantize_before_transpose",
    "quantization.quantized_signedness",
    "quantization.dynamic_conv_signedness",  # after the pass that makes weights uint8
    "quantization.inference_qbmm_add_fusion",
    "quantization.dequantized_weights",  # for weights that no integer operator uses
    # matmul
    "matmul.inference_matmul_split_fusion",
    "matmul.mat_mul_elemwise_fusion",
    # activations
    "activations.fast_gelu_fusion",  # off by default; before BiasGelu, which matches the same sums
    "activations.bias_gelu_fusion",
    "activations.inference_swiglu_fusion",  # before QuickGelu, which would match two of its factors
    "activations.quick_gelu_fusion",
    "activations.softmax_reshape",  # after the passes that match a Softmax
    # matmul
    "matmul.transpose_scale_mat_mul_fusion",  # after the passes that match plain products
    "matmul.mat_mul_all_reduce",  # this pass and the next never match: they exist as names
    # quantization
    "quantization.inference_qbmm_allreduce_add_fusion",
    # areas: operators that no other pass has fused
    "areas.blocked_convolution_fusion",
    "areas.blocked_mat_mul_fusion",
    "areas.winograd_convolution",
    "areas.strassen_mat_mul",
    "areas.fusion_virtual_op_set_switch",
    "areas.multi_output_fusion",
    "areas.reduce_elemwise_fusion",
    "areas.eltwise_fusion",
    "areas.automatic_ub_fusion",
)


def _load(name: str) -> Pass:
    module = import_module(f"{__name__}.{name}")
    classes = [
        c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__
    ]
    (only,) = (c for c in classes if issubclass(c, Pass))
    return only()


PASSES: tuple[Pass, ...] = tuple(map(_load, _ORDER))
