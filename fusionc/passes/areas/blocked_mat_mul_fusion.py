from fusionc.passes.areas._area_pass import AreaPass


class BlockedMatMulFusionPass(AreaPass):
    """Products with constant matrices and what stands around them become one area, whose kernel has
    matrices in blocks.

    before   MatMul and Gemm with constant weights, biases, activations, sums and products of equal
             shapes, LayerNormalization, RMSNormalization, this also as x / √(mean(x²) + epsilon)
             with parts that nobody else reads, MultiHeadAttention, Where that makes some rows zero,
             connected; RotaryEmbedding from position 0 on, and Reshape, Transpose, Unsqueeze and
             Expand that give keys and values heads, and repeat these, for attention; or one MatMul
             or Gemm alone; float32, of two to four axes, attention and Where of three
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel beside the
             model
    refuses  what onnxruntime is estimated to compute as fast: small matrices; of more than 32 rows
             products alone, unless rows of the operand are whole pages apart or StrassenMatMulPass
             takes them; what stands in front of all products
    never    without --enable_graph_kernel; weights that are computed, or of an outer graph; Gemm
             with alpha, beta or a first operand that is transposed; attention with a past, a bias
             of its own, a mask by keys or one that is made by the area, for each query the keys
             before it alone, further outputs, keys whose heads come from outside or are needed
             there, heads whose channels are no multiple of 16, or of 32 where positions are
             embedded, batches or numbers of values that are not known to be those of the queries
             and keys. Each processor keeps the keys and values of one head besides
    algebra  the kernel computes what the operators compute, adding up in another order
    source   measured: of few rows onnxruntime waits for memory and fills its tiles badly; of many
             it is as fast as the direct way, but goes over the results once more for each
             activation and sum
    """
