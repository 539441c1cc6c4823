"""Types in which models store weights with few bits. onnxruntime casts such weights to the type of
the computation when it loads the model.
"""

from __future__ import annotations

from onnx import TensorProto

NARROW = frozenset(
    {
        TensorProto.BFLOAT16,
        TensorProto.FLOAT4E2M1,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E4M3FNUZ,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT8E5M2FNUZ,
        TensorProto.INT2,
        TensorProto.INT4,
        TensorProto.INT8,
        TensorProto.UINT2,
        TensorProto.UINT4,
        TensorProto.UINT8,
    }
)
