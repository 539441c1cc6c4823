"""Areas → C → a shared library that onnxruntime loads as custom operators."""
