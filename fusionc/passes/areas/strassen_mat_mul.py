from fusionc.passes.areas._area_pass import AreaPass


class StrassenMatMulPass(AreaPass):
    """Large products in a blocked area are computed with fewer multiplications.

    before   a product with a constant matrix in an area of BlockedMatMulFusionPass, or a
             convolution of 1×1 in one of BlockedConvolutionFusionPass; a multiple of 32 channels in
    after    the same area, whose kernel takes sums of halves of both operands: 7 products for what
             took 8
    refuses  areas that their passes refuse
    never    without --enable_graph_kernel; on other processors than AMD's Zen 4, which are not
             known to be faster for it: Intel's Sapphire Rapids takes up to 1.27 of the time; few
             rows or channels, for which the sums take as long as is saved, and fewer than 256
             channels out (with vectors of 16) for each core. Rows, cores and the processor are
             those of the run, which sees as well whether the columns are of about one size;
             effected_times counts those that are large enough, as far as rows are known. A session
             that has run with enough rows keeps the sums of the matrix, 1.25 times as large as
             that, and up to 4 MB for each core
    algebra  Strassen's algorithm, once. Rows are scaled by powers of two, so that rounding errors
             are relative to the sum of the sizes of their own row; rows that are not finite, and
             columns of very different sizes, are computed directly
    source   Strassen, Gaussian Elimination is not Optimal, 1969
    """
