"""The domains of operators that onnxruntime has besides the standard one, which is ""."""

MICROSOFT = "com.microsoft"
TRADITIONAL = "ai.onnx.ml"  # trees, scalers, encoders
