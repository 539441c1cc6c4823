"""The domains of onnxruntime's operators other than the standard one, which is ""."""

MICROSOFT = "com.microsoft"
TRADITIONAL = "ai.onnx.ml"  # trees, scalers, encoders
