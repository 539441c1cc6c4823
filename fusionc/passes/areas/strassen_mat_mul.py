from fusionc.passes.areas._area_pass import AreaPass


class StrassenMatMulPass(AreaPass):
    """Large products in a blocked area are computed with fewer multiplications.

    before   a product with a constant matrix in an area of BlockedMatMulFusionPass, or a convolution of 1×1 with stride
             1 in one of BlockedConvolutionFusionPass; a multiple of 32 channels in
    after    the same area, whose kernel takes sums of halves of both operands: 7 products for what took 8
    refuses  areas that their passes refuse
    never    without --enable_graph_kernel; few rows or channels, for which the sums take as long as is saved. How many
             rows there are is seen when the kernel runs; a session that has run with enough of them keeps the sums of
             the matrix, 1.25 times as large as that
    algebra  Strassen's algorithm, once. Rows are scaled by powers of two, so that rounding errors are relative to the
             sum of the sizes of their own row; rows that are not finite, and columns of very different sizes, are
             computed directly
    source   Strassen, Gaussian Elimination is not Optimal, 1969
    """
