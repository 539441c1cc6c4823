from fusionc.passes.areas._area_pass import AreaPass


class StrassenMatMulPass(AreaPass):
    """Large products in a blocked area are computed with fewer multiplications.

    before   a product with a constant matrix in an area of BlockedMatMulFusionPass, or a
             convolution of 1×1 in one of BlockedConvolutionFusionPass; a multiple of 32 input
             channels
    after    the same area, whose kernel multiplies sums of halves of both operands: 7 products
             instead of 8
    refuses  areas that their passes refuse
    never    without --enable_graph_kernel; on processors other than AMD's Zen 4, which are not
             known to gain: Intel's Sapphire Rapids takes up to 1.27 of the time; few rows or
             channels, for which the sums cost as much as they save, and fewer than 256 output
             channels (with vectors of 16) for each core. The kernel decides by the rows, cores and
             processor of the run, and only if columns have similar sizes; effected_times counts
             products that are large enough, as far as rows are known. A session that has run with
             enough rows keeps the sums of the matrix, 1.25 times its size, and up to 4 MB for each
             core
    algebra  Strassen's algorithm, once. Rows are scaled by powers of two, so that rounding errors
             are relative to the sum of the sizes of their own row; rows that are not finite, and
             columns of very different sizes, are computed directly
    source   Strassen, Gaussian Elimination is not Optimal, 1969
    """
