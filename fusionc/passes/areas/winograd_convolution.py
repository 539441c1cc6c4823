from fusionc.passes.areas._area_pass import AreaPass


class WinogradConvolutionPass(AreaPass):
    """Convolutions of 3×3 in a blocked area are computed with fewer multiplications.

    before   a convolution of 3×3 with dilation 1 and a stride of 1 or 2, in an area of
             BlockedConvolutionFusionPass; at least 16 channels on both sides
    after    the same area, whose kernel transforms 6×6 pixels and the weights: 36 products instead
             of 144; for small images it transforms 4×4 pixels, with 16 products instead of 36 and
             fewer weights to read; with a stride of 2 it transforms 5×5 pixels, with 25 products
             instead of 36
    refuses  areas that BlockedConvolutionFusionPass refuses
    never    without --enable_graph_kernel; images of a few pixels, for which reading the weights
             takes longer; with a stride of 2 few channels (about 100), for which transforming the
             pixels takes longer than the products that it saves
    algebra  Winograd's F(4×4, 3×3) and F(2×2, 3×3), with a stride of 2 F(2, 2) of every second
             pixel. Rounding errors are larger than those of sums of products, and relative to the
             largest number of a tile: next to others a 0 may not stay 0, and a very small number
             loses its digits next to a very large one. If that matters, switch this pass off
    source   Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015
    """
