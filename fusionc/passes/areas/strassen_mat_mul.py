from fusionc.passes.areas._area_pass import AreaPass


class StrassenMatMulPass(AreaPass):
    """Large products in a blocked area are computed with fewer multiplications.

    before   a product with a constant matrix in an area of BlockedMatMulFusionPass, or a 1×1
             convolution in an area of BlockedConvolutionFusionPass, with a multiple of 32 input
             channels
    after    the same area, whose kernel multiplies sums of the halves of both operands: 7 products
             instead of 8
    refuses  areas that BlockedMatMulFusionPass and BlockedConvolutionFusionPass refuse
    never    anything without --enable_graph_kernel; products of dequantized values, and products
             whose results are quantized, because rounding would move numbers to other steps of the
             quantization; products on processors other than AMD's Zen 4, because these are not
             known to gain (Intel's Sapphire Rapids takes up to 1.27 of the time); products with so
             few rows or channels that the sums cost as much as they save, or with fewer than 256
             output channels for each core (if a vector register holds 16 floats). The kernel
             decides this when it runs, because it then knows the rows, the cores and the processor;
             effected_times counts products that are large enough by the sizes that the model
             states. After a run with enough rows, the session keeps the sums of the matrix in
             memory: 1.25 times the size of the matrix, and up to 4 MB for each core
    algebra  Strassen's algorithm, applied once. Rows are scaled by powers of two, so that the
             rounding errors of each row are relative to the size of that row. Rows with infinities
             or NaN, and columns of very different sizes, are computed directly
    source   Strassen, Gaussian Elimination is not Optimal, 1969
    """
