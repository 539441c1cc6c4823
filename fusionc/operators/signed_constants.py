"""Constants of int8 that onnxruntime may turn into uint8 when it loads a model."""

from __future__ import annotations

from fusionc.operators.domains import MICROSOFT

# By domain and operator, the inputs. The new tensor is called after the old one: what two operators
# share is made twice, and onnxruntime then refuses the model ("Attempt to replace the existing
# tensor").
CHANGED_TO_UNSIGNED: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "QuantizeLinear"): (2,),
    ("", "DequantizeLinear"): (0, 2),
    ("", "MatMulInteger"): (1, 3),
    ("", "QLinearConv"): (3, 5),
    ("", "QLinearMatMul"): (3, 5),
    (MICROSOFT, "QuantizeLinear"): (2,),
    (MICROSOFT, "DequantizeLinear"): (0, 2),
    (MICROSOFT, "DynamicQuantizeLSTM"): (1, 2, 9, 11),
    (MICROSOFT, "DynamicQuantizeMatMul"): (1, 3),
    (MICROSOFT, "MatMulIntegerToFloat"): (1, 5),
    (MICROSOFT, "QAttention"): (1, 7),
    (MICROSOFT, "QGemm"): (3, 5),
}
