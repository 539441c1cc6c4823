from fusionc.passes.areas._area_pass import AreaPass


class BlockedConvolutionFusionPass(AreaPass):
    """Convolutions and the operators between them become one area, computed in blocks of channels.

    before   Conv, ConvTranspose, pools, activations, sums, products with one factor for each
             channel, BatchNormalization, Concat, Split, Slice, shuffles of channels (Reshape,
             Transpose, Reshape) and nearest Resize, connected, with at least one convolution;
             LayerNormalization over channels and products with matrices between Transposes of the
             channels; products with the mean of each image over rows and columns (Flatten, Reshape,
             Squeeze, ReduceMean), as a classifier or a gate (Unsqueeze, Reshape); float32, constant
             weights
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel next to the
             model
    refuses  areas that onnxruntime is estimated to compute as fast in its own blocked layout
    never    without --enable_graph_kernel; weights that are computed; unknown numbers of channels;
             groups of channels that are neither whole blocks of 16 nor have 1, 2, 4 or 8 inputs and
             as many outputs or a multiple
    algebra  the kernel computes the same as the operators, but sums in another order; a gate from 0
             to 1 may multiply the weights of the convolution after it instead of the pixels
    source   measured: onnxruntime leaves its blocked layout and returns to it for operators that
             the layout lacks
    """
