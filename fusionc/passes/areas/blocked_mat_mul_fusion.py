from fusionc.passes.areas._area_pass import AreaPass


class BlockedMatMulFusionPass(AreaPass):
    """Products with constant matrices and the operators before and after them become one area,
    computed in blocks.

    before   connected float32 operators on two to four axes, at least one of them a MatMul or Gemm
             with constant weights: biases, activations, sums and products of equal shapes,
             LayerNormalization, RMSNormalization (also written out as x / √(mean(x²) + epsilon)),
             MultiHeadAttention, and a Where that makes some rows zero; RotaryEmbedding from
             position 0 on; Reshape, Transpose, Unsqueeze and Expand that split keys and values into
             heads, or repeat the heads, for attention. Attention and Where need three axes. A
             single MatMul or Gemm is also an area
    after    one operator of the domain fusionc.gk: a model-local function, and a compiled kernel
             next to the model
    refuses  areas that onnxruntime computes as fast, by an estimate: small matrices, and a single
             product with more than 32 rows (but not if StrassenMatMulPass computes it, or if the
             row size of its operand is a multiple of the memory page size); operators before the
             first product
    never    anything without --enable_graph_kernel; computed weights, and weights of an outer
             graph; Gemm with alpha, beta or a transposed first operand; causal attention; attention
             with past keys and values, a bias of its own, more than one output, a mask with one
             number for each key, or a mask that the area computes; keys that are split into heads
             and come from outside the area, or are used outside; heads whose size is not a multiple
             of 16, or of 32 with rotary embedding; keys, values and queries whose batch sizes are
             not known to be equal; keys and values whose numbers are not known to be equal
    algebra  the kernel applies the same operators, but sums in another order; during attention,
             each processor core also stores the keys and values of one head
    source   measured: for few rows, onnxruntime waits for memory, and its tiles are hardly filled.
             For many rows, onnxruntime's products are as fast, but it reads and writes their
             results once more for each activation and sum
    """
