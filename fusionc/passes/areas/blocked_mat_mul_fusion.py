from fusionc.passes.areas._area_pass import AreaPass


class BlockedMatMulFusionPass(AreaPass):
    """Products with constant matrices and the operators around them become one area of blocks.

    before   MatMul and Gemm with constant weights, biases, activations, sums and products of equal
             shapes, LayerNormalization, RMSNormalization, also as x / √(mean(x²) + epsilon) with
             parts that are not read elsewhere, MultiHeadAttention, and Where that makes some rows
             zero, connected; RotaryEmbedding from position 0 on, and Reshape, Transpose, Unsqueeze
             and Expand that split keys and values into heads, and repeat these, for attention; or a
             single MatMul or Gemm; float32, of two to four axes, attention and Where of three
    after    one operator of the domain fusionc.gk: a model-local function, and a kernel next to the
             model
    refuses  areas that onnxruntime is estimated to compute as fast: small matrices; products alone
             with more than 32 rows, unless rows of the operand are whole pages apart or
             StrassenMatMulPass takes them; operators before all products
    never    without --enable_graph_kernel; weights that are computed, or of an outer graph; Gemm
             with alpha, beta or a transposed first operand; attention with a past, its own bias, a
             mask by keys or one that the area computes, causal attention, further outputs, keys
             whose heads come from outside or are needed there, heads whose channels are not a
             multiple of 16, or of 32 if positions are embedded, batches or numbers of values that
             are not known to be those of the queries and keys. Each processor also keeps the keys
             and values of one head
    algebra  the kernel computes the same as the operators, but sums in another order
    source   measured: for few rows onnxruntime waits for memory and fills its tiles badly; for many
             rows it computes products as fast, but passes over the results once more for each
             activation and sum
    """
