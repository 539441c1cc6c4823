from fusionc.passes.areas._area_pass import AreaPass


class WinogradConvolutionPass(AreaPass):
    """3×3 convolutions in a blocked area are computed with fewer multiplications.

    before   a 3×3 convolution with dilation 1 and a stride of 1 or 2, in an area of
             BlockedConvolutionFusionPass; at least 16 input and 16 output channels
    after    the same area, whose kernel transforms tiles of 6×6 pixels and the weights: 36 products
             instead of 144. For small images it transforms tiles of 4×4 pixels: 16 products instead
             of 36, and fewer weights to read. With a stride of 2 it transforms tiles of 5×5 pixels:
             25 products instead of 36
    refuses  areas that BlockedConvolutionFusionPass refuses
    never    anything without --enable_graph_kernel; convolutions of dequantized values, and
             convolutions whose results are quantized, because rounding would move numbers to other
             steps of the quantization; images of a few pixels, because reading the transformed
             weights takes longer; with a stride of 2, fewer than about 100 channels, because
             transforming the pixels takes longer than the saved products
    algebra  Winograd's F(4×4, 3×3) and F(2×2, 3×3); with a stride of 2, F(2, 2) of every second
             pixel. Rounding errors are larger than those of plain sums of products, and grow with
             the largest number in the tile: in a tile with large numbers, a result of 0 may become
             a small number, and a very small number loses its digits. If that matters, switch this
             pass off
    source   Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015
    """
