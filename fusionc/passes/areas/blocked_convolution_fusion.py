from fusionc.passes.areas._area_pass import AreaPass


class BlockedConvolutionFusionPass(AreaPass):
    """Convolutions and what stands between them become one area, whose kernel keeps images in
    blocks of channels.

    before   Conv, ConvTranspose, pools, activations, sums, products with one factor for each
             channel, BatchNormalization, Concat, Split, Slice, shuffles of channels (Reshape,
             Transpose, Reshape) and nearest Resize, connected, with at least one convolution;
             LayerNormalization over channels and products with matrices between Transposes of the
             channels; products of what a mean over rows and columns makes of each image (Flatten,
             Reshape, Squeeze, ReduceMean), as the classifier or as a gate (Unsqueeze, Reshape);
             float32, constant weights
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel beside the
             model
    refuses  what onnxruntime is estimated to compute as fast in its own blocked layout
    never    without --enable_graph_kernel; weights that are computed; numbers of channels that are
             not known; groups of channels that are neither whole blocks of 16 nor of 1, 2, 4 or 8
             in and as many or a multiple out
    algebra  the kernel computes what the operators compute, adding up in another order; a gate from
             0 to 1 may multiply the weights of the convolution behind it instead of the pixels
    source   measured: onnxruntime leaves its blocked layout for what it has no operator for, and
             comes back to it
    """
