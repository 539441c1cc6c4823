"""The domains of onnxruntime's operators other than the standard domain ""."""

MICROSOFT = "com.microsoft"
TRADITIONAL = "ai.onnx.ml"  # trees, scalers, encoders
