from fusionc.passes.areas._area_pass import AreaPass


class WinogradConvolutionPass(AreaPass):
    """Convolutions of 3×3 in a blocked area are computed with fewer multiplications.

    before   a convolution of 3×3 with dilation 1 and a stride of 1 or 2, in an area of
             BlockedConvolutionFusionPass; at least 16 channels on both sides
    after    the same area, whose kernel transforms 6×6 pixels and the weights: 36 products for what
             took 144; of small images 4×4, where 16 products take the place of 36 and fewer weights
             are read; with a stride of 2 it transforms 5×5 pixels, and 25 products take the place
             of 36
    refuses  areas that BlockedConvolutionFusionPass refuses
    never    without --enable_graph_kernel; images of a few pixels, where the weights take longer to
             read; with a stride of 2 few channels (about 100), whose pixels take longer to
             transform than products are saved
    algebra  Winograd's F(4×4, 3×3) and F(2×2, 3×3), with a stride of 2 F(2, 2) of every second
             pixel; rounding errors are larger than those of sums of products, and relative to the
             largest number of a tile: beside others a 0 need not stay one, and what is very small
             beside a very large one loses its digits; where that matters, switch this pass off
    source   Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015
    """
