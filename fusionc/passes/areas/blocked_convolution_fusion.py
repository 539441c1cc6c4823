from fusionc.passes.areas._area_pass import AreaPass


class BlockedConvolutionFusionPass(AreaPass):
    """Convolutions and the operators between them become one area, computed in blocks of channels.

    before   connected float32 operators with constant weights, at least one of them a convolution:
             Conv, ConvTranspose, pools, activations, sums, products with one factor for each
             channel, BatchNormalization, Concat, Split, Slice, nearest Resize, and channel shuffles
             (Reshape, Transpose, Reshape); LayerNormalization over channels, and matrix products
             between Transposes of the channels; matrix products with the mean of all pixels, as in
             a classifier or a gate. Also whole groups that onnxruntime computes in 8-bit integers:
             Conv, MatMul, Gemm, Add and GlobalAveragePool between DequantizeLinear and
             QuantizeLinear, or their integer forms such as QLinearConv, and MaxPool and Clip of
             8-bit integers. Each image in such a group must have a single scale and a single zero
             point. Also ConvInteger, MatMulInteger and their fused forms on the results of
             DynamicQuantizeLinear, and the float32 operators between them
    after    one operator of the domain fusionc.gk: a model-local function, and a compiled kernel
             next to the model
    refuses  areas that onnxruntime computes as fast in its own blocked layout, by an estimate
    never    anything without --enable_graph_kernel; computed weights; unknown numbers of channels;
             grouped convolutions, unless each group has a multiple of 16 channels, or has 1, 2, 4
             or 8 input channels and a multiple of that number of output channels. Among integer
             operators also a bias that does not have exactly one number for each channel, and
             grouped convolutions other than depthwise ones
    algebra  the kernel applies the same operators, but sums in another order. If a gate has values
             from 0 to 1, the kernel may multiply the weights of the next convolution by the gate
             instead of the pixels. Groups in integers give the same bits as onnxruntime's integer
             operators, except for numbers that are exactly halfway between two integers. A
             DynamicQuantizeLinear ignores NaN unless all elements are NaN; in onnxruntime, the
             position of a NaN decides. With --precision_mode_v2=mixed_bfloat16, products read
             bfloat16 operands and sum in float32
    source   measured: onnxruntime leaves its blocked layout for each operator that has no form in
             that layout, and returns to it afterwards
    """
