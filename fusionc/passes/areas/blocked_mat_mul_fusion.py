from fusionc.passes.areas._area_pass import AreaPass


class BlockedMatMulFusionPass(AreaPass):
    """Products with constant matrices and the operators around them become one area of blocks.

    before   connected float32 operators on two to four axes, at least one of them a MatMul or Gemm
             with constant weights: biases, activations, sums and products of equal shapes,
             LayerNormalization, RMSNormalization (also written out as x / √(mean(x²) + epsilon)),
             MultiHeadAttention, and a Where that makes some rows zero; RotaryEmbedding from
             position 0 on; Reshape, Transpose, Unsqueeze and Expand that split keys and values into
             heads, or repeat the heads, for attention. Attention and Where need three axes. A
             single MatMul or Gemm is enough
    after    one operator of the domain fusionc.gk: a model-local function, and a compiled kernel
             next to the model
    refuses  areas that onnxruntime is estimated to compute as fast: small matrices, and products
             alone with more than 32 rows, except if the row size of the operand is a multiple of
             the memory page size; products that StrassenMatMulPass handles; operators before the
             first product
    never    without --enable_graph_kernel; computed weights, and weights of an outer graph; Gemm
             with alpha, beta or a transposed first operand; causal attention; attention with a
             past, a bias of its own, more than one output, a mask by keys, or a mask that the area
             computes; split keys that come from outside the area, or are used outside; heads whose
             size is not a multiple of 16, or of 32 with rotary embedding; keys, values and queries
             whose batches are not known to be equal; keys and values whose lengths are not known to
             be equal
    algebra  the kernel applies the same operators, but sums in another order; during attention,
             each core also stores the keys and values of one head
    source   measured: for few rows, onnxruntime waits for memory and fills its tiles badly. For
             many rows, it computes products as fast, but reads and writes the results once more for
             each activation and sum
    """
